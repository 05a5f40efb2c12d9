package namedfile

import (
	"io/fs"
	"os"
	"syscall"
)

// Removed reports whether an open file, of which info is what its descriptor's Stat returned, has no name any more: nobody
// reads what is written to it. One that was moved away has one.
func Removed(path string, info fs.FileInfo) bool {
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Nlink > 0 {
		return false
	}
	named, err := os.Stat(path) // some file systems count no names
	return err != nil || !os.SameFile(named, info)
}
