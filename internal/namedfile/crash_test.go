package namedfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/faultyfs"
)

// TestReplacePowerFails: after a power failure at any point there is either the old or the new content, and the new one
// after Replace has returned, even in a newly created folder. The next Replace removes what such a failure has left
// behind.
func TestReplacePowerFails(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		for _, folder := range []string{"", "/made/for/it"} {
			dir := disk.Dir + folder
			name := filepath.Join(dir, "f")
			old := folder == ""
			if old {
				replace(t, name, "old", Options{})
			}
			disk.Begin()
			if err := MakeFolder(dir); err != nil {
				t.Fatal(err)
			}
			replace(t, name, "new", Options{})
			disk.EveryCrash(func(m *faultyfs.Image) {
				text, err := os.ReadFile(name)
				switch {
				case string(text) == "new":
				case m.Last:
					t.Errorf("%s: when it was done it is %q, %v, after%s", folder, text, err, m.Lost)
				case old && string(text) == "old", !old && errors.Is(err, fs.ErrNotExist):
				default:
					t.Errorf("%s: after %d changes%s it is %q, %v", folder, m.After, m.Lost, text, err)
				}
				if _, err := os.Stat(dir); err != nil {
					return
				}
				replace(t, name, "next", Options{})
				if left, _ := filepath.Glob(dir + "/.*"); len(left) > 0 {
					t.Errorf("%s: after %d changes%s %q stay", folder, m.After, m.Lost, left)
				}
			})
		}
	})
}

// TestReplaceWhereFoldersAreNotSynced: on a file system that does not sync folders, as that of a shared folder may not,
// Replace works and reports no error.
func TestReplaceWhereFoldersAreNotSynced(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		name := filepath.Join(disk.Dir, "f")
		for _, text := range []string{"old", "new"} {
			disk.Inject(faultyfs.Fault{Ops: faultyfs.OpSyncDir, Err: syscall.EINVAL, Count: 1})
			replace(t, name, text, Options{})
			if got, err := os.ReadFile(name); err != nil || string(got) != text {
				t.Errorf("it is %q, %v", got, err)
			}
		}
		disk.Inject(faultyfs.Fault{Ops: faultyfs.OpSyncDir, Err: syscall.EIO, Count: 1})
		if err := Replace(name, []byte("newer"), Options{}); !errors.Is(err, syscall.EIO) {
			t.Errorf("the folder is not durable, and nobody hears of it: %v", err)
		}
	})
}
