package driver

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A knownGroup is a group whose gateways do not change. While unheard is set, the gateway that is asked does not
// know them.
type knownGroup struct {
	gateways []control.Member
	unheard  atomic.Bool
	age      atomic.Int64 // milliseconds
}

func (g *knownGroup) Status() control.GroupStatus {
	s := control.GroupStatus{Gateway: "gw1", Age: int(g.age.Load())}
	if !g.unheard.Load() {
		s.Gateways = g.gateways
	}
	return s
}

func (*knownGroup) Order(context.Context, control.Order) error { return nil }

// TestAddressesOfGroup checks that nodes are told the addresses of all gateways, whichever is asked: first those that
// are there, and also of those that have ended, since they return while the volume is published.
func TestAddressesOfGroup(t *testing.T) {
	const here = "127.77.60.1:4420"
	group := &knownGroup{gateways: []control.Member{
		{Name: "gw0", State: "ended", Addresses: []string{"127.77.60.3:4420"}},
		{Name: "gw1", State: "alive", Addresses: []string{here}},
		{Name: "gw2", State: "silent", Addresses: []string{"127.77.60.2:4420", "127.77.60.2:4421"}},
	}}
	set := newConsole(t, softroce.Config{}, here, group).volumes(t, "read")
	v := &volumes.Volume{ID: volumes.ID{Target: "g"}}
	at, err := set.Addresses(t.Context(), v)
	if want := []string{here, "127.77.60.2:4420", "127.77.60.2:4421", "127.77.60.3:4420"}; err != nil || !slices.Equal(at, want) {
		t.Errorf("nodes are told %q, %v; want %q", at, err, want)
	}
	group.unheard.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if at, err = set.Addresses(ctx, v); err == nil {
		t.Errorf("of a gateway that does not know its group, nodes are told %q, %v", at, err)
	}
}

// TestStaleGateway checks that a volume that a gateway does not find is taken for removed only if the gateway knows what
// its group has: it may have been created at another one.
func TestStaleGateway(t *testing.T) {
	group := &knownGroup{gateways: []control.Member{{Name: "gw1", State: "alive"}}}
	s := newServices(t, newConsole(t, softroce.Config{}, "", group).volumes(t, "operate"), nil)
	const v, a = "g/00000000-0000-4000-8000-000000000001", "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000a"
	s.delete(codes.OK, v)
	s.unpublish(codes.OK, v, a)
	group.age.Store(time.Minute.Milliseconds())
	s.delete(codes.Unavailable, v)
	s.unpublish(codes.Unavailable, v, a)
	s.unpublish(codes.Unavailable, v, "")
}
