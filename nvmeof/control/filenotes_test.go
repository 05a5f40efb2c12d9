package control

import (
	"path/filepath"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestUnshared: gateways do not share a file whose blocks the kernel of one may write later.
func TestUnshared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	for _, test := range []struct {
		what    string
		cfg     file.Config
		gateway bool
		refused bool
	}{
		{"of a single target", file.Config{Size: 1 << 20, Buffered: true}, false, false},
		{"of a gateway", file.Config{}, true, false},
		{"in the page cache", file.Config{Buffered: true}, true, true},
		{"that is read", file.Config{Buffered: true, ReadOnly: true}, true, false},
	} {
		test.cfg.BlockSize = 512
		store, err := file.Open(path, test.cfg)
		if err != nil {
			t.Fatal(err)
		}
		var s stores
		if test.gateway {
			s.notes = struct{ FileNotes }{}
		}
		h := &heldStore{store: store, as: &config.Namespace{File: &config.File{Path: config.Path(path)}}}
		if err := s.unshared(h); (err != nil) != test.refused {
			t.Errorf("%s: %v", test.what, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
