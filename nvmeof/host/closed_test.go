package host

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestConnectWhileClosing: a Connect that is interrupted by Close of the host returns ErrClosed, not a cancellation,
// since the caller has not canceled it.
func TestConnectWhileClosing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newSoftroceRig(t, rigConfig{}, softroce.NewNetwork(5))
		o := r.options()
		o.Traddr = netip.MustParseAddr("192.0.2.77") // an address that does not respond
		failed := make(chan error, 1)
		go func() { // ends with the host
			_, err := r.host.Connect(context.Background(), o)
			failed <- err
		}()
		synctest.Wait()
		if err := r.host.Close(); err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) {
			t.Errorf("%v, want ErrClosed", err)
		}
	})
}

// TestErrorsOfStores: errors found by the namespace itself match those of package backend, as the statuses of its
// controller do.
func TestErrorsOfStores(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}})
		c := r.connect(r.options())
		n := r.namespace(c)
		p := make([]byte, 4096)
		for _, test := range []struct {
			err      error
			is, also error
		}{
			{second(n.WriteAt(p, 1<<20)), ErrOutOfRange, backend.ErrOutOfRange},
			{second(n.ReadAt(p, -1)), ErrOutOfRange, backend.ErrOutOfRange},
			{second(n.WriteAt(p[:1], 0)), ErrUnaligned, backend.ErrInvalid},
		} {
			if !errors.Is(test.err, test.is) || !errors.Is(test.err, test.also) {
				t.Errorf("%v is not %v and %v", test.err, test.is, test.also)
			}
		}
		if err := c.Disconnect(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := n.NewQueue(1, nil); !errors.Is(err, ErrClosed) || !errors.Is(err, backend.ErrClosed) {
			t.Errorf("NewQueue after Disconnect: %v, want backend.ErrClosed", err)
		}
	})
}

// TestBuffersAfterClose: Bytes returns no memory that has been unmapped.
func TestBuffersAfterClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		c := r.connect(r.options())
		closed, err := c.NewBuffers(1)
		if err != nil {
			t.Fatal(err)
		}
		open, err := c.NewBuffers(1)
		if err := errors.Join(err, closed.Close(), closed.Close()); err != nil {
			t.Error(err)
		}
		if b := closed.Bytes(); b != nil {
			t.Errorf("%d bytes after Close", len(b))
		}
		if b := open.Bytes(); len(b) != 4096 {
			t.Errorf("%d bytes before", len(b))
		}
		if err := c.Disconnect(t.Context()); err != nil {
			t.Error(err)
		}
		if b := open.Bytes(); b != nil {
			t.Errorf("%d bytes after Disconnect", len(b))
		}
	})
}
