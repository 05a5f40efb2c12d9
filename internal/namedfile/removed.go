package namedfile

import (
	"io/fs"
	"os"
	"syscall"
)

// Removed reports whether an open file has no name any more, so that nothing written to it will be read. info is the
// result of the open file's Stat. A file that was moved still has a name.
func Removed(path string, info fs.FileInfo) bool {
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Nlink > 0 {
		return false
	}
	named, err := os.Stat(path) // some file systems do not count links
	return err != nil || !os.SameFile(named, info)
}
