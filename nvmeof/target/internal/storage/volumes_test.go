package storage

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// A hungFile has reservations, and does not answer while it hangs.
type hungFile struct {
	load, unlock chan struct{}
	users        atomic.Int32
}

func newHungFile() *hungFile {
	return &hungFile{make(chan struct{}), make(chan struct{}), atomic.Int32{}}
}

func (f *hungFile) Load() ([]byte, error) { <-f.load; return nil, nil }
func (f *hungFile) Save([]byte) error     { return nil }
func (f *hungFile) Lock() (func() error, error) {
	if f.users.Add(1) > 1 {
		panic("reservations are used by two")
	}
	return func() error { <-f.unlock; f.users.Add(-1); return nil }, nil
}

// An openedStore counts how often it is opened.
type openedStore struct {
	backend.Store
	times atomic.Int32
}

func (s *openedStore) Info() backend.Info {
	s.times.Add(1)
	return backend.Info{Size: 1 << 20, BlockSize: 512}
}

func (s *openedStore) Allocated() (int64, error) { return 4096, nil }

// TestOpeningHangs: reservations that hang only delay those who use them, or the store that is opened with them.
// Nothing is opened twice.
func TestOpeningHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Volumes
		all.Init(1, nil)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		acquire := func(s backend.Store, r ReservationStore) (*Namespace, <-chan error) {
			n, ended := NewNamespace(Identity{ID: 1}, 1, false), make(chan error, 1)
			go func() { ended <- all.Acquire(s, "a file", r, reservation.Owner{}, n) }()
			synctest.Wait()
			return n, ended
		}
		waits := func(all ...<-chan error) {
			t.Helper()
			for _, ended := range all {
				if synctest.Wait(); len(ended) > 0 {
					t.Errorf("it does not wait: %v", <-ended)
				}
			}
		}
		file, store, other := newHungFile(), &openedStore{}, &openedStore{}
		first, opened := acquire(store, file)
		second, joined := acquire(store, nil)
		_, refused := acquire(&openedStore{}, file)
		waits(opened, joined, refused)
		beside, ended := acquire(other, nil)
		must(<-ended)
		must(all.Release(beside, nil))

		close(file.load)
		must(<-opened)
		must(<-joined)
		if err := <-refused; err == nil || !strings.Contains(err.Error(), "name another file") {
			t.Errorf("reservations have two volumes: %v", err)
		}
		if first.Volume != second.Volume || store.times.Load() != 1 {
			t.Error("a store is opened twice")
		}
		must(all.Release(second, nil))

		closed := make(chan error, 1)
		go func() { closed <- all.Release(first, nil) }()
		synctest.Wait()
		_, again := acquire(store, nil)
		_, taken := acquire(&openedStore{}, file)
		waits(closed, again, taken)
		beside, ended = acquire(other, nil)
		must(<-ended)
		must(all.Release(beside, nil))
		close(file.unlock)
		must(<-closed)
		must(<-again)
		must(<-taken)
	})
}
