package block

import (
	"os"
	"path/filepath"
	"testing"
)

// TestProbe: a device can be probed while another process has it open.
func TestProbe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, cfg := range map[string]Config{file: {}, file + "none": {}, "": {BlockSize: 3}} {
		if _, err := Probe(path, cfg); err == nil {
			t.Errorf("%q: no error", path)
		}
	}
	l := newLoop(t, testSize, 512, 0)
	s, err := Open(l.path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := Probe(l.path, Config{}); err != nil || info != s.Info() {
		t.Errorf("%+v, %v, want %+v", info, err, s.Info())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
