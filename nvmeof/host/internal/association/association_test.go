package association

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// TestEnd: the first reason of an association's end stays, whichever is first, and only the
// first Close has to disconnect the queues.
func TestEnd(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, c := range []struct {
		name string
		end  func(*Association)
		err  error
		lost bool // before Close
	}{
		{"nothing", func(*Association) {}, ErrClosed, false},
		{"lost", func(a *Association) { a.Lose(first) }, first, true},
		{"lost twice", func(a *Association) { a.Lose(first); a.Lose(second) }, first, true},
		{"by a queue", func(a *Association) { a.loseQueue(&Queue{ID: 1}, first); a.Lose(second) }, first, true},
	} {
		a := New()
		c.end(a)
		if (a.Err() != nil) != c.lost {
			t.Errorf("%s: %v before Close", c.name, a.Err())
		}
		if lost, once := a.Close(); lost != c.lost || !once {
			t.Errorf("%s: Close says lost %v, first %v", c.name, lost, once)
		}
		if _, once := a.Close(); once {
			t.Errorf("%s: another Close is the first too", c.name)
		}
		<-a.Done()
		if a.Err() != c.err || a.Add(&Queue{}) != c.err || len(a.Queues()) != 0 {
			t.Errorf("%s: %v, %d queues", c.name, a.Err(), len(a.Queues()))
		}
	}
}

// TestDomain: memory is found while it is registered, and where it lies.
func TestDomain(t *testing.T) {
	device, err := rdmatest.NewLoopback().Open(netip.MustParseAddr("192.0.2.1"), rdmatest.Attrs())
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	pd, err := device.NewDomain()
	if err != nil {
		t.Fatal(err)
	}
	slab, err := shard.NewSlab(4 * Page)
	if err != nil {
		t.Fatal(err)
	}
	d := &Domain{RDMA: pd}
	all := slab.Bytes()
	low, err := d.Register(all[:2*Page], nil)
	if err != nil {
		t.Fatal(err)
	}
	high, err := d.Register(all[2*Page:], slab)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to int
		want     *Memory
		off      int
	}{
		{0, Page, low, 0}, {Page, 2 * Page, low, Page}, {100, 612, low, 100},
		{2 * Page, 3 * Page, high, 0}, {3 * Page, 4 * Page, high, Page},
		{Page, 3 * Page, nil, 0}, // in two
	} {
		m, off := d.Find(all[c.from:c.to])
		if (c.want == nil) != (m == nil) || c.want != nil && (m != c.want.Memory || off != c.off) {
			t.Errorf("%d to %d is found at %d of %p", c.from, c.to, off, m)
		}
	}
	if m, _ := d.Find(make([]byte, 10)); m != nil {
		t.Error("memory is found that was never registered")
	}
	for range 2 { // the second does nothing
		if err := d.Drop(low); err != nil {
			t.Error(err)
		}
	}
	if m, _ := d.Find(all[:Page]); m != nil {
		t.Error("memory is found that was dropped")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := d.Register(make([]byte, Page), nil); err != ErrClosed {
		t.Errorf("registering in a closed domain: %v", err)
	}
}
