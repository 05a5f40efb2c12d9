package namedfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := func(want bool) {
		t.Helper()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if got := Removed(path, info); got != want {
			t.Errorf("removed is %v", got)
		}
	}
	want(false)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	want(false)
	if err := os.Remove(path + ".1"); err != nil {
		t.Fatal(err)
	}
	want(true)
}
