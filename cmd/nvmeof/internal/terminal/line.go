package terminal

import (
	"fmt"
	"io"
)

// Line shows on a terminal how far a job is, in one line that is erased at the end; nil
// where nobody would look.
func Line(w io.Writer, what string) func(float64) {
	if !Is(w) {
		return nil
	}
	return func(share float64) {
		if share >= 1 {
			fmt.Fprint(w, "\r\x1b[K")
			return
		}
		fmt.Fprintf(w, "\r\x1b[K%s: %3.0f %%", what, 100*share)
	}
}
