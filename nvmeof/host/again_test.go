package host

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestHostAgain: after a host has been closed, another one can be made on the same device, as in a program that
// reconnects with another NQN.
func TestHostAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		network := softroce.NewNetwork(3)
		r := newSoftroceRig(t, rigConfig{stores: []backend.Store{newStore(t, 1<<20, 4096)}}, network)
		device, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr("192.0.2.3"), Network: network})
		if err != nil {
			t.Fatal(err)
		}
		defer device.Close()
		for range 3 {
			h, err := New(Config{Device: device, Polling: nvmeof.PollNever})
			if err != nil {
				t.Fatal(err)
			}
			c, err := h.Connect(t.Context(), r.options())
			if err != nil {
				t.Fatal(err)
			}
			exercise(t, r.namespace(c), 1, 3)
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			if _, err := h.Connect(t.Context(), r.options()); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "host is closed") {
				t.Errorf("a host that was closed connects: %v", err)
			}
		}
	})
}

// TestTargetAgain: likewise for a target.
func TestTargetAgain(t *testing.T) {
	device, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr("192.0.2.3"), Network: softroce.NewNetwork(4)})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	served, err := target.New(target.Config{Polling: nvmeof.PollNever})
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	for range 3 {
		d, err := served.AddDevice(device)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Listen(target.ListenerConfig{Addr: netip.MustParseAddrPort("192.0.2.3:4420")}); err != nil {
			t.Fatal(err)
		}
		if err := d.Remove("it comes back"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConnectWithoutContext: a call without a context panics, as it does elsewhere, and Close does not wait for it.
func TestConnectWithoutContext(t *testing.T) {
	r := newRig(t, rigConfig{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Connect without a context did not panic")
			}
		}()
		//lint:ignore SA1012 it is the mistake
		r.host.Connect(nil, r.options())
	}()
	if err := r.host.Close(); err != nil {
		t.Error(err)
	}
}
