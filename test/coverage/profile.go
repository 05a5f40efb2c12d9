package main

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// module is the import path of the repository's root.
const module = "github.com/nvmeof-go/nvmeof"

// A block is a piece of source without a branch, as in a profile: its file and its position there.
type block struct{ file, place string }

// blocks holds the number of statements of each block and whether a test executed it.
type blocks map[block]struct {
	statements int
	covered    bool
}

// parse parses a profile, whose lines are
//
//	file:line.column,line.column statements count
func parse(profile string) (blocks, error) {
	all := blocks{}
	for line := range strings.Lines(profile) {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[0] == "mode:" {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("not a line of a profile: %q", line)
		}
		file, place, _ := strings.Cut(fields[0], ":")
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("not a line of a profile: %q", line)
		}
		k := block{strings.TrimPrefix(file, module+"/"), place}
		b := all[k]
		b.statements, b.covered = n, b.covered || fields[2] != "0"
		all[k] = b
	}
	return all, nil
}

// A count is the number of statements and the number of those that a test executed.
type count struct{ all, covered int }

func (c count) percent() float64 { return 100 * float64(c.covered) / float64(max(c.all, 1)) }

// perPackage adds up the blocks of each directory.
func perPackage(all blocks) map[string]count {
	sum := map[string]count{}
	for k, b := range all {
		c := sum[path.Dir(k.file)]
		c.all += b.statements
		if b.covered {
			c.covered += b.statements
		}
		sum[path.Dir(k.file)] = c
	}
	return sum
}
