package inuse

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFindLocker(t *testing.T) {
	line := func(pid, file string) string { return "1: FLOCK  ADVISORY  WRITE " + pid + " " + file + " 0 EOF\n" }
	tests := []struct {
		locks string
		alone bool
		want  int
	}{
		{"", false, 0},
		{line("77", "fe:01:5678"), false, 77},
		{line("77", "fe:01:56789") + line("78", "fe:02:5678") + line("79", "fe:01:5678"), false, 79},
		{"1: POSIX  ADVISORY  WRITE 77 fe:01:5678 0 EOF\n", false, 0},
		{"1: -> FLOCK  ADVISORY  WRITE 77 fe:01:5678 0 EOF\n", false, 0}, // waits for it
		{line("77", "fe:01:5678"), true, 77},
		{"1: FLOCK  ADVISORY  READ 77 fe:01:5678 0 EOF\n", false, 77},
		{"1: FLOCK  ADVISORY  READ 77 fe:01:5678 0 EOF\n", true, 0},
		{line("0", "fe:01:5678"), false, 0},
		{line("-1", "fe:01:5678"), false, 0},
		{"nonsense\n\n1: FLOCK\n", false, 0},
	}
	for _, tt := range tests {
		if got := findLocker(strings.NewReader(tt.locks), unix.Mkdev(0xfe, 1), 5678, tt.alone); got != tt.want {
			t.Errorf("%q: process %d, want %d", tt.locks, got, tt.want)
		}
	}
}

// TestLoopsBelow: a device-mapper device over a partition of a loop device, as sysfs shows them.
func TestLoopsBelow(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"loop7/loop/backing_file", "loop7/loop7p1/partition", "sda/size"} {
		path := filepath.Join(root, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte("1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for at, below := range map[string][]string{"dm-0": {"loop7/loop7p1", "sda"}, "dm-1": {"dm-0"}} {
		os.MkdirAll(filepath.Join(root, at, "slaves"), 0o755)
		for _, b := range below {
			if err := os.Symlink(filepath.Join(root, b), filepath.Join(root, at, "slaves", filepath.Base(b))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for at, want := range map[string][]string{"dm-1": {root + "/loop7"}, "loop7": {root + "/loop7"}, "sda": nil, "none": nil} {
		if got := loopsBelow(filepath.Join(root, at)); !slices.Equal(got, want) {
			t.Errorf("below %s: %v, want %v", at, got, want)
		}
	}
}
