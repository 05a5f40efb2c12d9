package control

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestHungDevice: an RDMA device that hangs while it is opened delays only its own listeners. It is served when it
// has opened, and opened only once.
func TestHungDevice(t *testing.T) {
	t.Parallel()
	m, opens := newMachine(), make(chan struct{})
	var hangs netip.Addr
	r := newRig(t, func(c *Config) {
		c.Device = func(a netip.Addr, own config.Transport) (rdmatransport.Device, error) {
			if a == hangs {
				<-opens
			}
			return m.device(a, own)
		}
	})
	hangs = r.second
	r.startTimeout = 500 * time.Millisecond // the machine may be busy
	if _, err := r.Apply(r.doc(twoAddresses), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	if n := len(r.target.Listeners()); n != 1 {
		t.Errorf("%d listeners of 1 that can be", n)
	}
	if w := r.Status().Waiting; len(w) != 2 || !strings.Contains(w[0].Why, "device "+r.second.String()+" has not answered since") {
		t.Errorf("waiting are %+v", w)
	}
	without := r.doc(strings.Replace(twoAddresses, "  - id: 2\n    address: ADDR2:4420\n  - id: 3\n    address: ADDR2:4421\n", "", 1))
	if _, err := r.Apply(without, Options{}); err != nil {
		t.Error(err)
	}
	var hung *HungError
	if _, err := r.Apply(r.doc(twoAddresses), Options{}); !errors.As(err, &hung) {
		t.Errorf("a listener on it: %v", err)
	}
	r.wantState(without)
	if _, err := r.Apply(r.doc(twoAddresses), Options{Wait: true}); err != nil {
		t.Error(err)
	}
	close(opens)
	r.await("the listeners are there", func() bool { return len(r.target.Listeners()) == 3 })
	if n := m.count(); n != 2 {
		t.Errorf("%d devices are open for 2 addresses", n)
	}
}
