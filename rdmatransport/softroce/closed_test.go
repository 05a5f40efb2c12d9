package softroce

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestClosedDevice: what waits for a shard does not wait for those of a device that is
// closed, which nobody polls any more.
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
	go func() { // before it is closed, and nobody polls
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
			if !errors.Is(err, rdmatransport.ErrClosed) && name != "Listen that had begun" { // which may have come through
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s does not return", name)
		}
	}
}
