package file

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHasData: holes are not data, nor is storage that a store allocated and nothing was written to.
func TestHasData(t *testing.T) {
	dir := t.TempDir()
	want := func(path string, want bool) {
		t.Helper()
		if has, err := HasData(path); err != nil || has != want {
			t.Errorf("%v, %v, want %v", has, err, want)
		}
	}
	want(filepath.Join(dir, "missing"), false)
	for _, thin := range []bool{true, false} {
		path := tempFile(t)
		closeStore(t, openStore(t, path, Config{Size: 1 << 20, Thin: thin}))
		want(path, false)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{1}, 1<<20-1); err != nil {
			t.Fatal(err)
		}
		want(path, true) // it need not be on the disk yet
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if has, err := HasData("/dev/null"); err == nil && !has {
		t.Error("a device has none")
	}
}
