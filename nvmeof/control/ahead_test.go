package control

import (
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

const slowDocument = `version: 1
subsystems:
  - nqn: a
    namespaces:
      - nsid: 2
        file: {path: DIR/slow, size: 1MiB}
`

// A slow opener fails until there is something to open. Then one call blocks until it is released.
type slow struct {
	there        atomic.Bool
	opened       atomic.Int32
	begun, letGo chan struct{}
}

func (s *slow) open(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
	switch {
	case n.Path() == "":
	case !s.there.Load():
		return nil, nil, fs.ErrNotExist
	case s.opened.Add(1) == 1:
		close(s.begun)
		<-s.letGo
	}
	return OpenStore(n, pool)
}

// newSlow returns a rig with a namespace that waits for a store which is being opened.
func newSlow(t *testing.T) (*rig, *slow) {
	t.Helper()
	s := &slow{begun: make(chan struct{}), letGo: make(chan struct{})}
	r := newRig(t, func(c *Config) { c.Open = s.open })
	if _, err := r.Apply(r.doc(slowDocument), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	s.there.Store(true)
	<-s.begun
	return r, s
}

// TestOpensAhead: while a store is opened for a namespace that waits, the target can be changed and returns its
// status.
func TestOpensAhead(t *testing.T) {
	t.Parallel()
	r, s := newSlow(t)
	if n := len(r.Status().Waiting); n != 1 {
		t.Errorf("%d namespaces wait", n)
	}
	began := time.Now()
	memory := &config.Namespace{NSID: 3, Memory: &config.Memory{Size: 1 << 20}}
	if _, err := r.Edit(func(d *config.Document) error { return namespaces(d.Subsystems[0]).add(memory) }, Options{}); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > startTimeout/2 {
		t.Errorf("a change took %v", took)
	}
	close(s.letGo)
	r.await("the namespace is there", func() bool { return len(r.Status().Waiting) == 0 })
	if n := s.opened.Load(); n != 1 {
		t.Errorf("it was opened %d times", n)
	}
}

// TestChangedAhead: a change of a namespace whose store is being opened waits for that, and finds the file
// unlocked. So does its removal.
func TestChangedAhead(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]string{
		"read-only": strings.Replace(slowDocument, "nsid: 2", "nsid: 2\n        read-only: true", 1),
		"removed":   "version: 1\nsubsystems:\n  - nqn: a\n",
		"the same":  slowDocument + "        reservations: DIR/reservations\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newSlow(t)
			time.AfterFunc(100*time.Millisecond, func() { close(s.letGo) })
			doc := r.doc(to)
			if _, err := r.Apply(doc, Options{}); err != nil {
				t.Fatal(err)
			}
			r.await("nothing waits", func() bool { return len(r.Status().Waiting) == 0 })
			r.wantState(doc)
			if name == "removed" {
				r.await("its file is free", func() bool {
					store, _, err := OpenStore(r.doc(slowDocument).Subsystems[0].Namespaces[0], new(memory.Pool))
					return err == nil && store.Close() == nil
				})
			}
		})
	}
}
