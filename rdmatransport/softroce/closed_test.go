package softroce

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestClosedDevice: calls that wait for a shard do not wait for those of a closed device, which are no longer polled.
func TestClosedDevice(t *testing.T) {
	addr := netip.MustParseAddr("10.0.0.1")
	d, err := Open(Config{Addr: addr, Shards: 2, Network: NewNetwork(1)})
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	domain, err := d.NewDomain()
	if err != nil {
		t.Fatal(err)
	}
	qp, err := domain.NewQueuePair(rdmatransport.QPConfig{CQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan error, 1)
	go func() { // called before the device is closed, which is not polled
		_, err := d.Listen(netip.AddrPortFrom(addr, 4420))
		begun <- err
	}()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	at := netip.AddrPortFrom(addr, 4421)
	for name, call := range map[string]func() error{
		"Listen that had begun": func() error { return <-begun },
		"Listen":                func() error { _, err := d.Listen(at); return err },
		"Connect": func() error {
			_, err := d.Connect(context.Background(), qp, at, rdmatransport.ConnParams{})
			return err
		},
		"Stats": func() error {
			if n := len(d.Stats()); n != 2 {
				t.Errorf("statistics of %d shards", n)
			}
			return rdmatransport.ErrClosed
		},
		"Close": func() error { return errors.Join(rdmatransport.ErrClosed, d.Close()) },
	} {
		ended := make(chan error, 1)
		go func() { ended <- call() }()
		select {
		case err := <-ended:
			if !errors.Is(err, rdmatransport.ErrClosed) && name != "Listen that had begun" { // it may have succeeded
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s does not return", name)
		}
	}
}

// TestCloseRefuses: a peer that has asked a device for a connection is rejected at once when the device is closed,
// whether or not a consumer has accepted the request, and however long ago.
func TestCloseRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		take  bool
		since time.Duration
	}{{"waits", false, time.Millisecond}, {"taken", true, time.Millisecond}, {"taken long ago", true, 10 * time.Second}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { closeRefuses(t, test.take, test.since) })
		})
	}
}

func closeRefuses(t *testing.T, take bool, since time.Duration) {
	n := NewNetwork(1)
	n.Faults = func(netip.Addr, netip.Addr) Faults { return Faults{Delay: 50 * time.Microsecond} }
	a := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: n})
	b := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.2"), Network: n})
	a.newQP(t)
	l, err := b.dev.Listen(netip.AddrPortFrom(b.dev.Addr(), 4420))
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	go func() {
		_, err := a.dev.Connect(t.Context(), a.qp, l.Addr(), rdmatransport.ConnParams{})
		asked <- err
	}()
	if take {
		if _, err := l.Accept(t.Context()); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(since)
	b.close()
	closed := time.Now()
	if err := b.dev.Close(); err != nil {
		t.Error(err)
	}
	var refused *rdmatransport.RejectError
	if err := <-asked; !errors.As(err, &refused) || refused.Reason != rdmatransport.RejectInvalidServiceID {
		t.Errorf("Connect: %v", err)
	}
	if took := time.Since(closed); took > time.Millisecond {
		t.Errorf("it was told after %v", took)
	}
	a.do(func() { a.qp.Close() })
	a.close()
	if err := a.dev.Close(); err != nil {
		t.Error(err)
	}
}

// TestAcceptFails: a request that cannot be accepted can be rejected. Otherwise the peer would wait for more than a
// minute.
func TestAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(1)
		a := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: n})
		b := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.2"), Network: n})
		a.newQP(t)
		b.newQP(t)
		l, err := b.dev.Listen(netip.AddrPortFrom(b.dev.Addr(), 4420))
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan error, 1)
		go func() {
			_, err := a.dev.Connect(t.Context(), a.qp, l.Addr(), rdmatransport.ConnParams{})
			asked <- err
		}()
		r, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.do(func() {
			b.qp.Disconnect()
			err = r.Accept(b.qp, rdmatransport.ConnParams{})
		})
		if err == nil {
			t.Error("a queue pair that has ended was accepted")
		}
		if err := r.Reject([]byte("no")); err != nil {
			t.Errorf("Reject after that: %v", err)
		}
		var refused *rdmatransport.RejectError
		if err := <-asked; !errors.As(err, &refused) || refused.Reason != rdmatransport.RejectConsumer || string(refused.PrivateData[:2]) != "no" {
			t.Errorf("Connect: %v", err)
		}
		for _, e := range []*end{a, b} {
			e.do(func() { e.qp.Close() })
			e.close()
			if err := e.dev.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestPostAfterClose: posts to a closed queue pair fail. They would complete as flushed, in the entries reserved for
// other completions.
func TestPostAfterClose(t *testing.T) {
	d, err := Open(Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: NewNetwork(1)})
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	domain, err := d.NewDomain()
	if err != nil {
		t.Fatal(err)
	}
	var qps [2]rdmatransport.QueuePair
	for i := range qps {
		if qps[i], err = domain.NewQueuePair(rdmatransport.QPConfig{CQ: cq, MaxSend: 16, MaxRecv: 16}); err != nil {
			t.Fatal(err)
		}
	}
	if err := qps[1].PostRecv(make([]rdmatransport.RecvWR, 16)); err != nil {
		t.Fatal(err)
	}
	qps[1].Disconnect() // 16 completions have not been polled
	if err := qps[0].Close(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := qps[0].PostSend(make([]rdmatransport.SendWR, 8)); !errors.Is(err, rdmatransport.ErrClosed) {
			t.Errorf("PostSend: %v", err)
		}
		if err := qps[0].PostRecv(make([]rdmatransport.RecvWR, 8)); !errors.Is(err, rdmatransport.ErrClosed) {
			t.Errorf("PostRecv: %v", err)
		}
	}
	cs := make([]rdmatransport.Completion, 512)
	n := cq.Poll(cs)
	for _, c := range cs[:n] {
		if c.QPN != qps[1].QPN() {
			t.Fatalf("%d completions, one of queue pair %#x, which is closed", n, c.QPN)
		}
	}
	if n != 16 {
		t.Errorf("%d completions, want 16", n)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
