package uring

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCloseLetsGoOfFile: who closes a ring and then the file has given the file up: it can be
// unmounted, or opened exclusively, at once. A lease for reading is refused as long as anything has
// the file open for writing (fcntl(2), F_SETLEASE).
func TestCloseLetsGoOfFile(t *testing.T) {
	both(t, func(t *testing.T, locked bool) {
		for _, used := range []bool{false, true} {
			r, f := newRing(t, 4, locked)
			beside, err := os.Open(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			defer beside.Close()
			if used {
				r.Write([]byte("something"), 0, 0, 1)
				r.Fdatasync(2)
				finish(t, r, 2)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := unix.FcntlInt(beside.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err == unix.EAGAIN {
				t.Errorf("used %v: the file is open for writing after it was closed", used)
			}
		}
	})
}
