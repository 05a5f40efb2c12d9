package target

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestListenerEnds: a listener reports that its device is lost, or that its target was closed.
func TestListenerEnds(t *testing.T) {
	for _, want := range []error{rdmatransport.ErrDeviceLost, rdmatransport.ErrClosed} {
		d := newFakeDevice()
		target, err := New(Config{Device: d, Polling: nvmeof.PollNever, Arena: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		l, err := target.Listen(netip.MustParseAddrPort("192.0.2.1:4420"))
		if err != nil {
			t.Fatal(err)
		}
		if errors.Is(want, rdmatransport.ErrDeviceLost) {
			close(d.listener.lost)
			<-l.Done()
		}
		if err := target.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Err(); !errors.Is(err, want) {
			t.Errorf("listener ended with %v, want %v", err, want)
		}
	}
}
