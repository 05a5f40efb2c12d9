package discovery

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestWithoutKeepAlive: the silent loss of a controller without keep alive is noticed at the next read of its log, even
// if it reports changes.
func TestWithoutKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := softroce.NewNetwork(1)
		var cut atomic.Bool
		network.Faults = func(from, to netip.Addr) softroce.Faults {
			if cut.Load() {
				return softroce.Faults{Loss: 1}
			}
			return softroce.Faults{}
		}
		s := newSite(t, network, 1)
		s.add("nqn.2014-08.org.example:a")
		device := openDevice(t, network, 9)
		h, err := host.New(host.Config{Device: device, Polling: nvmeof.PollNever})
		s.must(err)
		dialer := &HostDialer{Host: func(context.Context, Endpoint) (*host.Host, host.Options, error) {
			return h, host.Options{KeepAliveTmo: -1}, nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		w := &watch{T: t, fabric: &fabric{}, ended: make(chan error, 1)}
		go func() { // ends with ctx
			w.ended <- Run(ctx, Config{Persistent: true, Event: w.event, MaxPause: time.Second}, dialer, at(1))
		}()
		w.after(time.Second, "added nqn.2014-08.org.example:a@1")
		cut.Store(true) // as if the machine had lost power
		s.close()
		cut.Store(false)
		s = newSite(t, network, 1)
		s.add("nqn.2014-08.org.example:b")
		seen := w.take(5 * time.Minute)
		if n := len(seen); n < 3 || seen[n-2] != "added nqn.2014-08.org.example:b@1" || seen[n-1] != "removed nqn.2014-08.org.example:a@1" {
			t.Errorf("seen %q", seen)
		}
		cancel()
		s.must(errors.Join(<-w.ended, h.Close(), device.Close()))
		s.close()
	})
}
