package control

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A rooted device does not move.
type rooted struct{ *softroce.Device }

func (rooted) Move() (*rdmatransport.Moved, error) { return nil, errors.New("too many open files") }

// memoryOf is the memory of the second namespace.
func (r *rig) memoryOf() []byte {
	return r.stores.held[keyOf("a", &config.Namespace{NSID: 2})].store.(*memory.Store).Memory()
}

// TestExportHalfWay has a device that cannot move after all: the target has ended, and another one has what
// was in memory, twice if the first fails.
func TestExportHalfWay(t *testing.T) {
	r := newRig(t, func(c *Config) {
		open := c.Device
		c.Device = func(a netip.Addr, own config.Transport) (rdmatransport.Device, error) {
			d, err := open(a, own)
			if err != nil {
				return nil, err
			}
			return rooted{d.(*softroce.Device)}, nil
		}
	})
	r.apply(r.doc(first))
	copy(r.memoryOf(), "written")
	x, err := Export(t.Context(), r.Manager)
	if x == nil || x.Target != nil || err == nil || !strings.Contains(err.Error(), "too many open files") {
		t.Fatalf("%+v, %v", x, err)
	}
	spare, err := x.WithoutHosts()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Moved{x, spare} {
		next := newRig(t, func(c *Config) { c.Moved = x })
		next.apply(x.Document)
		if b := next.memoryOf()[:7]; string(b) != "written" {
			t.Errorf("%q", b)
		}
		if _, err := Adopt(next.Manager); err == nil {
			t.Error("hosts without a record")
		}
		if err := errors.Join(next.Close(), x.Close()); err != nil {
			t.Error(err)
		}
	}
}
