package terminal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Is reports whether what is written there is on a terminal.
func Is(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
