package block

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRefusal: the kernel's error is explained, with a remedy.
func TestRefusal(t *testing.T) {
	l := newLoop(t, testSize, 512, unix.LO_FLAGS_READ_ONLY)
	other := newLoop(t, testSize, 512, 0)
	for _, tt := range []struct {
		path string
		err  error
		want string
	}{
		{l.path, unix.EACCES, "blockdev --setrw " + l.path},
		{l.path, unix.EROFS, "export it read-only (ro)"},
		{other.path, unix.EPERM, "run as root, or as a member of the group"},
		{other.path, unix.ENXIO, "the device does not exist or has no medium"},
		{other.path, unix.EIO, "input/output error"},
	} {
		s := &Store{path: tt.path}
		if err := s.refusal(tt.err); !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.err, err, tt.want)
		}
	}
}

// TestHealthNode: a device that is not on a drive of its own has none.
func TestHealthNode(t *testing.T) {
	l := newLoop(t, testSize, 512, 0)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{l.path, file, "/dev/null", file + "none"} {
		if node := HealthNode(path); node != "" {
			t.Errorf("%s: %s", path, node)
		}
	}
}
