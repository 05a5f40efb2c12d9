package nbd

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// TestCloseUnflushed: Close returns an error for a disk that cannot be flushed, unless the disk was removed before.
func TestCloseUnflushed(t *testing.T) {
	for published, want := range map[bool]string{true: "disk 1 was not flushed at the end: broken", false: "<nil>"} {
		store := backendtest.NewFaulty(newStore(t, 1<<20, 512))
		store.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpFlush}, Err: errors.New("broken")})
		s, err := Listen(Config{Socket: filepath.Join(t.TempDir(), "s")}, disks(store)...)
		if err != nil {
			t.Fatal(err)
		}
		c := connect(t, s, how{})
		c.write(0, random(512))
		if !published {
			if err := s.Publish(nil); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); fmt.Sprint(err) != want {
			t.Errorf("published: %v: %v, want %s", published, err, want)
		}
		c.gone()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
