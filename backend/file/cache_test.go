package file

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCacheIsForgotten: the page cache of a file is dropped once the file is used with direct I/O. Direct writes over
// cached pages would block.
func TestCacheIsForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 1 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	cached := func() (n int) {
		page := make([]byte, 4096)
		for at := int64(0); at < size; at += 64 << 10 {
			if _, err := unix.Preadv2(int(f.Fd()), [][]byte{page}, at, unix.RWF_NOWAIT); err == nil {
				n++
			}
		}
		return n
	}
	if cached() == 0 {
		t.Skip("this file system does not report what is cached")
	}
	var left int
	for range 3 { // the kernel keeps a page that is otherwise in use
		s, err := Open(path, Config{})
		if err != nil {
			t.Fatal(err)
		}
		direct, notes := s.direct, s.Notes()
		left = cached()
		closeStore(t, s)
		if !direct {
			t.Skip("this file system has no direct I/O: ", notes)
		}
		if left == 0 {
			return
		}
	}
	t.Errorf("%d of 16 pages are cached", left)
}
