package control

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/internal/shell"
)

// An unverifiedRecordError reports a missing file that may have existed before: the note that says so cannot be read.
type unverifiedRecordError struct {
	what         recordKind
	path, folder string // folder of the notes
	why          error
}

func (e *unverifiedRecordError) Error() string {
	return fmt.Sprintf("%s: %s is missing, and it is not known whether it existed before (%v): if it did, what hosts have set in it would be lost; "+
		"repair the directory %s, where that is recorded, or move it away if this is a first start", e.what, e.path, e.why, e.folder)
}

func (e *unverifiedRecordError) Unwrap() error { return e.why }

// An unverifiedSizeError reports a file that is shorter than its size, and may have been longer.
type unverifiedSizeError struct {
	path      string
	has, want int64 // bytes
	why       error
	note      string
}

func (e *unverifiedSizeError) Error() string {
	return fmt.Sprintf("%s has %d bytes of %d, and its earlier length is not known (%v): if it was truncated, hosts would read zeroes instead of the rest of their data; "+
		"restore the data, or, if it was never longer: rm -r %s", e.path, e.has, e.want, e.why, shell.Quote(e.note))
}

func (e *unverifiedSizeError) Unwrap() error { return e.why }
