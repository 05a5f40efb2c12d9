package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestProbe: a file can be probed while another process has it open, and does not change.
func TestProbe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	cfg := Config{Size: 1 << 20, BlockSize: 512}
	if _, err := Probe(path, cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
	s, err := Open(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	info, err := Probe(path, cfg)
	if err != nil || info != s.Info() {
		t.Errorf("%+v, %v, want %+v", info, err, s.Info())
	}
	cfg.Size = 2 << 20 // the next Open extends it
	if info, err = Probe(path, cfg); err != nil || info.Size != 2<<20 || sizeOf(t, path) != 1<<20 {
		t.Errorf("%d bytes, %v, and the file has %d", info.Size, err, sizeOf(t, path))
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Probe(empty, Config{}); err == nil {
		t.Error("an empty file")
	}
	if _, err := Probe(path, Config{BlockSize: 3}); err == nil {
		t.Error("a block size of 3")
	}
}
