package config

import (
	"fmt"
	"strings"
)

// A Position is a place in a file, a line and a column from 1. Columns count characters in YAML and bytes in JSON.
// The zero value means that there is none.
type Position struct{ Line, Column int }

// A Problem is an error or a doubt about a document.
type Problem struct {
	File string   // file name as given; may be empty
	At   Position // zero if the document has no text, or the field is missing
	Path string   // path of the field: "subsystems[0].nqn"
	Text string   // what is wrong
	Fix  string   // how to correct it; may be empty
}

// String returns "FILE:LINE:COLUMN: PATH: TEXT; FIX", without what is empty.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.At != (Position{}) {
		fmt.Fprintf(&b, "%d:%d:", p.At.Line, p.At.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	if p.Fix != "" {
		b.WriteString("; " + p.Fix)
	}
	return b.String()
}

// Problems is an error that lists everything that is wrong, in the order of the file.
type Problems []Problem

// maxShown is how many problems an error lists; the first ones often cause the others.
const maxShown = 20

func (p Problems) Error() string {
	var lines []string
	for i := range p {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(p)-i))
			break
		}
		lines = append(lines, p[i].String())
	}
	return strings.Join(lines, "\n")
}

// err returns p as an error, or nil if there is no problem.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}
