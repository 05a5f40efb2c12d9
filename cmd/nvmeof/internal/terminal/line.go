package terminal

import (
	"fmt"
	"io"
)

// Line returns a function that shows the progress of a job on a terminal, in one line that is erased at the end. It
// returns nil if w is not a terminal.
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
