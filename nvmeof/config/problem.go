package config

import (
	"fmt"
	"strings"
)

// A Position is a place in a file: line and column from 1, in bytes. The zero
// value is no place.
type Position struct{ Line, Column int }

// A Problem is one thing that is wrong with a document, or doubtful.
type Problem struct {
	File string   // as it was given; may be empty
	At   Position // zero where the document has no text, or the thing is missing
	Path string   // of the field: "subsystems[0].nqn"
	Text string   // what is wrong
	Fix  string   // what to do; may be empty
}

// String is "FILE:LINE:COLUMN: PATH: TEXT; FIX", without what is not known.
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

// Problems is an error that tells all that is wrong, in the order of the file.
type Problems []Problem

// maxShown is how many problems an error shows: the first ones cause the others.
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

// err is nil where there is no problem.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}
