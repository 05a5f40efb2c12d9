package control

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nvmeof-go/nvmeof/internal/socketfile"
)

// clearLeftOver removes from a folder the sockets beside the socket home that targets of this user left there when
// they were killed.
func clearLeftOver(dir, home string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if isMine(e) && isBeside(home, e) {
			_ = socketfile.RemoveDead(filepath.Join(dir, e.Name())) // it keeps sockets that are served
		}
	}
}

// isMine reports whether a file belongs to the process's user.
func isMine(e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
