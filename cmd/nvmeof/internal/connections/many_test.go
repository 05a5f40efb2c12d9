package connections

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestManyNamespaces checks that of a target with more namespaces than the maximum the lowest are opened, and stay
// open when lower ones are added. The number left out is reported once, and again when it changes.
func TestManyNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sub, address, h := subsystemWith(t, 3, 4, 5, 6)
		s, _, err := Multipath{MaxNamespaces: 3}.Connect(t.Context(), []Path{{Host: h, Options: host.Options{
			NQN: "nqn.2014-08.org.example:disk", Traddr: address.Addr(), Trsvcid: address.Port(), NrIOQueues: 1,
		}}}, func() {})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		look := func(want string, ids ...capsule.NSID) {
			t.Helper()
			time.Sleep(time.Second) // until the host has listed the changed namespaces
			all, err := s.Namespaces(t.Context())
			var got []capsule.NSID
			for _, n := range all {
				got = append(got, n.ID)
			}
			if (err == nil) != (want == "") || err != nil && err.Error() != want || !slices.Equal(got, ids) {
				t.Errorf("namespaces %v, %v; want %v, %s", got, err, ids, want)
			}
		}
		look("the subsystem lists 4 namespaces, but at most 3 are opened: 1 are ignored", 3, 4, 5)
		look("", 3, 4, 5)
		add(t, sub, 1)
		look("the subsystem lists 5 namespaces, but at most 3 are opened: 2 are ignored", 3, 4, 5)
		for _, id := range []capsule.NSID{3, 4} {
			if err := sub.RemoveNamespace(id); err != nil {
				t.Fatal(err)
			}
		}
		look("namespace 3 was removed\nnamespace 4 was removed", 1, 5, 6)
		look("", 1, 5, 6)
	})
}

// TestWantedOfMany checks that a wanted namespace is opened beyond the maximum.
func TestWantedOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, address, h := subsystemWith(t, 3, 4, 5, 6)
		for _, c := range []struct {
			wanted capsule.NSID
			ids    []capsule.NSID
		}{{6, []capsule.NSID{3, 6}}, {3, []capsule.NSID{3, 4}}, {9, []capsule.NSID{3, 4}}} {
			s, _, err := Multipath{MaxNamespaces: 2, Wanted: c.wanted}.Connect(t.Context(), []Path{{Host: h, Options: host.Options{
				NQN: "nqn.2014-08.org.example:disk", Traddr: address.Addr(), Trsvcid: address.Port(), NrIOQueues: 1,
			}}}, func() {})
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.Namespaces(t.Context())
			var got []capsule.NSID
			for _, n := range all {
				got = append(got, n.ID)
			}
			if !errors.As(err, new(*LeftOutError)) || !slices.Equal(got, c.ids) {
				t.Errorf("wanted is %d: namespaces %v, %v; want %v", c.wanted, got, err, c.ids)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// subsystemWith returns a subsystem of a target with those namespaces, its address, and a host on its network.
func subsystemWith(t *testing.T, ids ...capsule.NSID) (*target.Subsystem, netip.AddrPort, *host.Host) {
	t.Helper()
	network := softroce.NewNetwork(1)
	open := func(address string) *softroce.Device {
		d, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(address), Shards: 1, Network: network})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	served, err := target.New(target.Config{Device: open("192.0.2.2"), Polling: nvmeof.PollNever, Arena: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() })
	sub, err := served.AddSubsystem(target.SubsystemConfig{NQN: "nqn.2014-08.org.example:disk"})
	if err != nil {
		t.Fatal(err)
	}
	sub.AllowAnyHost(true)
	for _, id := range ids {
		add(t, sub, id)
	}
	address := netip.MustParseAddrPort("192.0.2.2:4420")
	if _, err := served.Listen(address); err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Config{Device: open("192.0.2.1"), Polling: nvmeof.PollNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return sub, address, h
}

func add(t *testing.T, s *target.Subsystem, id capsule.NSID) {
	t.Helper()
	m, err := memory.New(memory.Config{Size: 1 << 20})
	if err == nil {
		_, err = s.AddNamespace(target.NamespaceConfig{Store: m, NSID: id})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
}
