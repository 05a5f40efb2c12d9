package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Is reports whether out is a terminal.
func Is(out io.Writer) bool {
	if w, ok := out.(interface{ Unwrap() io.Writer }); ok {
		out = w.Unwrap()
	}
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
