package multipath

import (
	"errors"
	"sync"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

// TestClosed: errors of closed objects match ErrClosed of this package and of package backend.
func TestClosed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		n, other := l.namespace(s), l.namespace(s)
		check := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, ErrClosed) || !errors.Is(err, backend.ErrClosed) {
				t.Errorf("%s: %v, want ErrClosed", what, err)
			}
		}
		all := func(when string, n *Namespace) {
			t.Helper()
			_, err := n.ReadAt(make([]byte, n.BlockSize()), 0)
			check("ReadAt after the end of "+when, err)
			_, err = n.NewQueue(1, nil)
			check("NewQueue after the end of "+when, err)
			_, err = n.Refresh()
			check("Refresh after the end of "+when, err)
		}
		l.must(n.Close())
		all("the namespace", n)
		l.must(s.Close())
		all("the subsystem", other)
		l.must(other.Close()) // NewQueue has left no queue open
	})
}

// TestBuffersAfterClose: Bytes returns no memory that has been unmapped, whichever Close did it.
func TestBuffersAfterClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		b, err := s.NewBuffers(4096)
		l.must(err)
		var users sync.WaitGroup
		users.Go(func() { // ends at once
			if n := len(b.Bytes()); n != 4096 && n != 0 {
				t.Errorf("%d bytes", n)
			}
		})
		l.must(s.Close())
		users.Wait()
		if n := len(b.Bytes()); n != 0 {
			t.Errorf("%d bytes after Close", n)
		}
		l.must(b.Close())
	})
}
