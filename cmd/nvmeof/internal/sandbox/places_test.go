package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestReplaced checks that a file that is itself a place, such as a block device, cannot be used any more after it was
// replaced, and that one in a directory that is a place can.
func TestReplaced(t *testing.T) {
	for _, tt := range []struct {
		name   string
		folder bool // its directory is a place too
	}{{"the file alone", false}, {"with its folder", true}} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "device")
			create := func(path string) {
				t.Helper()
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			create(file)
			p := Places{Used: []string{file}}
			if tt.folder {
				p.Used = append(p.Used, dir)
			}
			p = p.resolve()
			if err := p.permit(file, true); err != nil {
				t.Errorf("at first: %v", err)
			}
			create(file + ".new")
			if err := os.Rename(file+".new", file); err != nil {
				t.Fatal(err)
			}
			var replaced *ReplacedError
			err = p.permit(file, true)
			if got := errors.As(err, &replaced) && errors.Is(err, fs.ErrPermission); got == tt.folder {
				t.Errorf("replaced: %v", err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := p.permit(file, true); err != nil {
				t.Errorf("while it is away: %v", err)
			}
		})
	}
}
