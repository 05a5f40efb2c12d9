package control

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/internal/shell"
)

// A doubtfulRecordError reports a missing file that may have existed before: the note that says so cannot be read.
type doubtfulRecordError struct {
	what         recordKind
	path, folder string // folder of the notes
	why          error
}

func (e *doubtfulRecordError) Error() string {
	return fmt.Sprintf("%s: %s is missing, and whether it was there before is not known (%v): what hosts have set would be forgotten; "+
		"mend %s, where that is noted, or put that folder aside if this is a first start", e.what, e.path, e.why, e.folder)
}

func (e *doubtfulRecordError) Unwrap() error { return e.why }

// A doubtfulCutError reports a file that is shorter than its size, and may have been longer.
type doubtfulCutError struct {
	path      string
	has, want int64 // bytes
	why       error
	note      string
}

func (e *doubtfulCutError) Error() string {
	return fmt.Sprintf("%s has %d bytes of %d, and how many it had before is not known (%v): if it was cut short hosts would find zeroes instead of the rest of their data; "+
		"bring that back, or, if it was never longer: rm -r %s", e.path, e.has, e.want, e.why, shell.Quote(e.note))
}

func (e *doubtfulCutError) Unwrap() error { return e.why }
