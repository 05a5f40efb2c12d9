package nbd

import (
	"sync/atomic"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A replaced disk calls looked, once, when its Info is called.
type replaced struct {
	backend.Store
	looked atomic.Pointer[func()]
}

func (r *replaced) Info() backend.Info {
	info := r.Store.Info()
	if f := r.looked.Swap(nil); f != nil {
		(*f)()
	}
	return info
}

// TestReplacedInHandshake: a client gets the size of the disk that it opens, also if that replaces another one at that
// moment.
func TestReplacedInHandshake(t *testing.T) {
	small, large := &replaced{Store: newStore(t, 1<<20, 512)}, newStore(t, 2<<20, 512)
	s := serve(t, Config{}, small, large)
	replace := func() {
		if err := s.Publish(disks(large)); err != nil {
			t.Error(err)
		}
	}
	small.looked.Store(&replace)
	c := connect(t, s, how{export: "1"})
	if c.size != 2<<20 {
		t.Errorf("%d bytes", c.size)
	}
	c.read(2<<20-512, 512)
}
