package control

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/memory"
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

// A noteBook stores the note of one file.
type noteBook struct{ note FileNote }

func (b *noteBook) Gateway() string { return "a" }

func (b *noteBook) Get(ctx context.Context, _ config.Path) (FileNote, error) {
	return b.note, ctx.Err()
}

func (b *noteBook) Put(ctx context.Context, n FileNote) (FileNote, error) {
	if ctx.Err() == nil {
		b.note = n
		b.note.Revision++
	}
	return b.note, ctx.Err()
}

func (b *noteBook) Drop(ctx context.Context, n FileNote) error {
	if ctx.Err() == nil {
		b.note = FileNote{}
	}
	return ctx.Err()
}

func (b *noteBook) Known(config.Path) FileNote { return b.note }

// TestNotesOfSlowFile: a gateway notes a file however long its file system takes to allocate it, or to refuse that.
func TestNotesOfSlowFile(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := new(noteBook)
			s := stores{notes: b, log: zap.NewNop()}
			s.open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
				time.Sleep(2 * noteTime)
				if fails {
					return nil, nil, backend.ErrNoSpace
				}
				return OpenStore(n, pool)
			}
			n := &config.Namespace{File: &config.File{Path: config.Path(filepath.Join(t.TempDir(), "disk")), Size: 1 << 20}}
			h, err := s.openNoted(n)
			if fails {
				if err == nil || b.note.Revision != 0 {
					t.Errorf("%v, and the note is %+v", err, b.note)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if b.note.Making || b.note.Size != 1<<20 {
				t.Errorf("noted: %+v", b.note)
			}
			if err := h.store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
