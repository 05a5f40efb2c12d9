package discover

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
)

// entry returns an entry of a discovery log.
func entry(transport capsule.TransportType, family capsule.AddressFamily, addr string) (e capsule.DiscoveryEntry) {
	e.TRTYPE, e.ADRFAM, e.SUBTYPE = transport, family, capsule.SubsystemNVM
	capsule.PutText(e.TRADDR[:], addr)
	capsule.PutText(e.TRSVCID[:], "4421")
	capsule.PutText(e.SubNQN[:], "nqn.2014-08.org.example:a")
	return e
}

// TestParseDiscovery checks that a page from another process is parsed, and a truncated one is rejected.
func TestParseDiscovery(t *testing.T) {
	const entries = 2
	page := make([]byte, capsule.DiscoveryHeaderSize+entries*capsule.DiscoveryEntrySize)
	capsule.DiscoveryHeader{GENCTR: 7, NUMREC: entries}.Encode(page)
	for i := range entries {
		e := entry(capsule.TransportRDMA, capsule.FamilyIPv4, "192.0.2.1")
		e.Encode(page[capsule.DiscoveryHeaderSize+i*capsule.DiscoveryEntrySize:])
	}
	log, err := parseDiscovery(page)
	if err != nil || log.Generation != 7 || len(log.Entries) != entries || capsule.Text(log.Entries[1].TRADDR[:]) != "192.0.2.1" {
		t.Errorf("%+v, %v", log, err)
	}
	for _, n := range []int{0, 1, capsule.DiscoveryHeaderSize - 1, capsule.DiscoveryHeaderSize + 1, len(page) - 1} {
		if _, err := parseDiscovery(page[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken for a log", n, len(page))
		}
	}
}

// TestScopes checks that a record is connected with the options of the entry by which it was found, without those for
// discovery controllers, and which records --matching accepts.
func TestScopes(t *testing.T) {
	var s Survey
	for _, options := range []hostconfig.Options{
		{"traddr": "192.0.2.1", "keep-alive-tmo": "30", "nr-io-queues": "3"},
		{"traddr": "192.0.2.9", "hostnqn": "nqn.2014-08.org.example:me"},
	} {
		if _, err := s.add(&hostconfig.Entry{Discovery: true, File: "f", Options: options}, map[string]string{"transport": "rdma", "tos": "4"}); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]string{"transport": "rdma", "tos": "4", "traddr": "192.0.2.1", "trsvcid": "4421", "nqn": "nqn.2014-08.org.example:a"}
	for _, c := range []struct {
		scope discovery.Scope
		entry capsule.DiscoveryEntry
		same  bool
		more  map[string]string // nil: no connection is possible
	}{
		{0, entry(capsule.TransportRDMA, capsule.FamilyIPv4, "192.0.2.1"), true, map[string]string{"nr-io-queues": "3"}},
		{1, entry(capsule.TransportRDMA, capsule.FamilyIPv4, "192.0.2.1"), false, map[string]string{"hostnqn": "nqn.2014-08.org.example:me"}},
		{0, entry(capsule.TransportTCP, capsule.FamilyIPv4, "192.0.2.1"), false, nil},
		{0, entry(capsule.TransportRDMA, capsule.FamilyIPv4, "somewhere"), false, nil},
	} {
		r := discovery.Record{Scope: c.scope, Entry: c.entry}
		if got := s.SameAddress(&r); got != c.same {
			t.Errorf("%v of scope %d: at the same address is %v", &r, c.scope, got)
		}
		got, err := s.OfRecord(&r)
		if (err == nil) != (c.more != nil) {
			t.Errorf("%v of scope %d: %v", &r, c.scope, err)
			continue
		}
		want := maps.Clone(found)
		maps.Copy(want, c.more)
		if err == nil && !maps.Equal(got, want) {
			t.Errorf("%v of scope %d: %v, want %v", &r, c.scope, slices.Sorted(maps.Keys(got)), want)
		}
	}
}

// TestFirst checks that a user is told once per controller what the command waits for.
func TestFirst(t *testing.T) {
	d := &remoteDialer{tried: map[discovery.Endpoint]bool{}}
	one := discovery.Endpoint{Addr: netip.MustParseAddrPort("192.0.2.1:4420"), NQN: "a"}
	other := one
	other.Scope = 1
	for i, c := range []struct {
		at   discovery.Endpoint
		want bool
	}{{one, true}, {one, false}, {other, true}, {one, false}} {
		if got := d.first(c.at); got != c.want {
			t.Errorf("%d: first is %v", i, got)
		}
	}
}
