package demo

import (
	"bytes"
	"path/filepath"
	"testing"
)

// TestDir checks that the file is in the user's directory, or else on a disk if a directory there is writable.
func TestDir(t *testing.T) {
	var out bytes.Buffer
	d := &demo{out: &out}
	if dir := d.dir(); dir == "" || !onDisk(dir) && out.Len() == 0 {
		t.Errorf("%q without a note", dir)
	}
	d.flags.dir = "here"
	if got := d.dir(); got != "here" {
		t.Errorf("%q, not where it was wanted", got)
	}
	if onDisk(filepath.Join(t.TempDir(), "none")) {
		t.Error("a folder that is not there is on a disk")
	}
}
