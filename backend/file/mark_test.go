package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMark: a file that Open creates gets its own mark and keeps it, also without extended attributes. An existing file
// has none.
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

// TestMarkFile: there is no mark file on a file system with extended attributes: a file of that name is not ours.
func TestMarkFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := writeMarkFile(markFile(path), make([]byte, markSize)); err != nil {
		t.Fatal(err)
	}
	if at := MarkFile(path); at != "" {
		t.Errorf("%s is a mark", at)
	}
}

// unmarked runs as root of its own user namespace.
func unmarked(dir string) {
	must(unix.Mount("none", dir, "ramfs", 0, "")) // which has no extended attributes
	path := filepath.Join(dir, "f")
	s, err := Open(path, Config{Size: 1 << 20, Thin: true, Buffered: true})
	must(err)
	if at := MarkFile(path); at != markFile(path) || !bytes.Equal(ReadMark(path), s.Mark()) {
		must(fmt.Errorf("the mark is in %q", at))
	}
	must(errors.Join(s.Close(), os.Remove(path), os.WriteFile(markFile(path), nil, 0o600)))
	if at := MarkFile(path); at != "" {
		must(fmt.Errorf("%s, which is empty, is a mark", at))
	}
	must(os.Remove(markFile(path)))
	signal.Ignore(unix.SIGXFSZ)
	must(unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: 1 << 19})) // as on a full disk
	if err := writeMarkFile(markFile(path), s.Mark()); !errors.Is(err, unix.EFBIG) {
		must(fmt.Errorf("a mark where nothing can be written: %w", err))
	}
	if _, err := os.Lstat(markFile(path)); !errors.Is(err, unix.ENOENT) {
		must(fmt.Errorf("an empty mark is left: %w", err))
	}
	must(unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 19, Max: 1 << 19}))
	if _, err := Open(path, Config{Size: 1 << 20, Thin: true}); !errors.Is(err, unix.EFBIG) {
		must(fmt.Errorf("a file is larger than it may be: %w", err))
	}
	left, err := os.ReadDir(dir)
	must(err)
	if len(left) > 0 {
		must(fmt.Errorf("%v is left of what could not be created", left))
	}
	fmt.Println("done")
}
