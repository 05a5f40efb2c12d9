package softroce

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestConnectTwice: a connected queue pair cannot be connected again, by either side's call, and its connection
// continues.
func TestConnectTwice(t *testing.T) {
	network := NewNetwork(1)
	a := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: network})
	b := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.2"), Network: network})
	connect(t, a, b)
	local := a.qp.LocalAddr()
	at := netip.AddrPortFrom(b.dev.Addr(), 4421)
	l, err := b.dev.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := a.dev.Connect(ctx, a.qp, at, rdmatransport.ConnParams{}); !errors.Is(err, errUsed) {
		t.Errorf("Connect of a queue pair with a connection: %v", err)
	}
	a.do(func() {
		if a.qp.LocalAddr() != local {
			t.Error("the queue pair has another connection")
		}
	})
	first := a.qp
	a.newQP(t)
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Accept(ctx)
		if err == nil {
			b.do(func() { err = r.Accept(b.qp, rdmatransport.ConnParams{}) })
			err = errors.Join(err, r.Reject(nil))
		}
		accepted <- err
	}()
	var refused *rdmatransport.RejectError
	if _, err := a.dev.Connect(ctx, a.qp, at, rdmatransport.ConnParams{}); !errors.As(err, &refused) {
		t.Errorf("Connect whose peer could not accept: %v", err)
	}
	if err := <-accepted; !errors.Is(err, errUsed) {
		t.Errorf("Accept with a queue pair that has a connection: %v", err)
	}
	a.do(func() { a.qp.Close() })
	a.mu.Lock()
	a.got, a.qp = nil, first // its posted requests were flushed
	a.mu.Unlock()
	exchange(t, a, b)
	finish(t, a, b)
}

// TestAcceptAfterClose: closing a listener ends a waiting Accept, even if the device is not polled any more.
func TestAcceptAfterClose(t *testing.T) {
	d, err := Open(Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: NewNetwork(1)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	listening := make(chan rdmatransport.Listener, 1)
	go func() { // ends as the queue is polled
		l, err := d.Listen(netip.AddrPortFrom(d.Addr(), 4420))
		if err != nil {
			t.Error(err)
		}
		listening <- l
	}()
	for len(listening) == 0 {
		cq.Poll(make([]rdmatransport.Completion, 1))
		time.Sleep(time.Millisecond)
	}
	l := <-listening
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := l.Accept(ctx); !errors.Is(err, rdmatransport.ErrClosed) {
		t.Errorf("Accept: %v, want ErrClosed", err)
	}
}
