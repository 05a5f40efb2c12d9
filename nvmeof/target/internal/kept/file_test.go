package kept

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFile: Load returns what was saved, one process at a time can lock the file, and errors name it.
func TestFile(t *testing.T) {
	f := File{filepath.Join(t.TempDir(), "state"), "reservations"}
	if b, err := f.Load(); b != nil || err != nil {
		t.Errorf("of no file %q is loaded, %v", b, err)
	}
	unlock, err := f.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Lock(); err == nil || !strings.Contains(err.Error(), "another target uses them") {
		t.Errorf("locked twice: %v", err)
	}
	want := []byte("content")
	if err := f.Save(want); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Load(); !bytes.Equal(got, want) || err != nil {
		t.Errorf("%q is loaded, %v", got, err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	again, err := f.Lock()
	if err != nil {
		t.Fatalf("locked again: %v", err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}

// TestBadFile: files that were not written by Save, and paths that cannot be written.
func TestBadFile(t *testing.T) {
	dir := t.TempDir()
	f := File{filepath.Join(dir, "state"), "reservations"}
	if err := os.Symlink("elsewhere", f.Name+".lock"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Lock(); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
		t.Errorf("a lock file that leads elsewhere: %v", err)
	}
	if err := os.WriteFile(f.Name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := f.Load(); err == nil || !strings.Contains(err.Error(), "the file is empty, so this program did not write it") {
		t.Errorf("of an empty file %q is loaded, %v", b, err)
	}
	nowhere := File{filepath.Join(dir, "none", "state"), "reservations"}
	if err := nowhere.Save([]byte("x")); err == nil || !strings.HasPrefix(err.Error(), "reservations: ") {
		t.Errorf("saved in no folder: %v", err)
	}
	if _, err := nowhere.Lock(); err == nil || !strings.HasPrefix(err.Error(), "reservations: ") {
		t.Errorf("locked in no folder: %v", err)
	}
	if b, err := (File{dir, "reservations"}).Load(); err == nil {
		t.Errorf("of a folder %q is loaded", b)
	}
	long := File{filepath.Join(dir, "long"), "reservations"}
	if err := long.Save(make([]byte, maxFile)); err != nil {
		t.Error(err)
	}
	if err := long.Save(make([]byte, maxFile+1)); err == nil || !strings.Contains(err.Error(), "more than the 4194304 that a later start would read") {
		t.Errorf("what nobody would read is saved: %v", err)
	}
	if b, err := long.Load(); len(b) != maxFile || err != nil {
		t.Errorf("%d bytes are loaded, %v", len(b), err)
	}
}
