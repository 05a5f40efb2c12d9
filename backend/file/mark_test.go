package file

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMark: what Open creates has a mark of its own, which stays with it, also where
// there are no extended attributes; what was there has none.
func TestMark(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	open := func() *Store {
		t.Helper()
		s, err := Open(path, Config{Size: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open()
	first := s.Mark()
	if len(first) != markSize || !s.Created() || !bytes.Equal(ReadMark(path), first) {
		t.Errorf("a new file has the mark %x, and %x by its name", first, ReadMark(path))
	}
	closeStore(t, s)
	if s = open(); s.Created() || !bytes.Equal(s.Mark(), first) {
		t.Errorf("it had the mark %x, and has %x", first, s.Mark())
	}
	if s.Detached() != nil {
		t.Error(s.Detached())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if s.Detached() == nil {
		t.Error("it is removed, and does not say so")
	}
	closeStore(t, s)
	if s = open(); bytes.Equal(s.Mark(), first) {
		t.Error("another file has the same mark")
	}
	none := func([]byte) (int, error) { return 0, unix.ENOTSUP }
	if markOf(path, none) != nil {
		t.Error("a mark out of nothing")
	}
	if err := writeMarkFile(markFile(path), first); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, path+".link"); err != nil || writeMarkFile(path+".link", first) == nil {
		t.Errorf("a symbolic link is followed: %v", err)
	}
	if !bytes.Equal(markOf(path, none), first) {
		t.Error("the mark beside the file is not found")
	}
	if err := os.WriteFile(path+"2", make([]byte, 4096), 0o600); err != nil || ReadMark(path+"2") != nil {
		t.Errorf("a file that was there has a mark: %v", err)
	}
}
