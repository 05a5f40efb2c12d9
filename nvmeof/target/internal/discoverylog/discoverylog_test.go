package discoverylog

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func TestDiscoveryEntryAddresses(t *testing.T) {
	for _, c := range []struct {
		listen, local, want string
		family              capsule.AddressFamily
	}{
		{"192.0.2.1:4420", "192.0.2.1", "192.0.2.1", capsule.FamilyIPv4},
		{"0.0.0.0:4420", "192.0.2.7", "192.0.2.7", capsule.FamilyIPv4},
		{"[::]:4420", "::ffff:192.0.2.7", "192.0.2.7", capsule.FamilyIPv4},
		{"[fe80::1%eth0]:4420", "fe80::1", "fe80::1", capsule.FamilyIPv6},
	} {
		r := Record{Port: 3, Addr: netip.MustParseAddrPort(c.listen), Transport: capsule.TransportRDMA}
		e := r.Entry(netip.MustParseAddr(c.local))
		if got := capsule.Text(e.TRADDR[:]); got != c.want || e.ADRFAM != c.family || e.PORTID != 3 {
			t.Errorf("%s reached at %s: %s, %v", c.listen, c.local, got, e.ADRFAM)
		}
	}
}

// TestPartsAreOfOnePage: whatever length a host reads at a time, and past the end.
func TestPartsAreOfOnePage(t *testing.T) {
	records := []Record{
		{Kind: capsule.SubsystemNVM, Transport: capsule.TransportRDMA, Port: 1, Addr: netip.MustParseAddrPort("192.0.2.1:4420"), NQN: "nqn.2026-11.io.example:a"},
		{Kind: capsule.SubsystemReferral, Transport: capsule.TransportTCP, Addr: netip.MustParseAddrPort("[2001:db8::1]:8009"), NQN: capsule.DiscoveryNQN},
	}
	whole := make([]byte, 3*capsule.DiscoveryEntrySize)
	if n := Fill(whole, 0, records[0], records[1:], 7, netip.Addr{}); n != uint64(len(whole)) {
		t.Fatalf("the page has %d bytes, want %d", n, len(whole))
	}
	head, err := capsule.DecodeDiscoveryHeader(whole)
	if err != nil || head.GENCTR != 7 || head.NUMREC != 2 {
		t.Errorf("header %+v, %v", head, err)
	}
	for _, step := range []int{4, 20, 1000, 1024, 1028} {
		var got []byte
		for at := 0; at < len(whole); at += step {
			b := make([]byte, step)
			Fill(b, uint64(at), records[0], records[1:], 7, netip.Addr{})
			got = append(got, b...)
		}
		if !bytes.Equal(got[:len(whole)], whole) || !bytes.Equal(got[len(whole):], make([]byte, len(got)-len(whole))) {
			t.Errorf("in parts of %d bytes it is another page", step)
		}
	}
	b := []byte{0xa5}
	for _, past := range []uint64{uint64(len(whole)), 1 << 63, ^uint64(0)} {
		if Fill(b, past, records[0], records[1:], 7, netip.Addr{}); b[0] != 0xa5 {
			t.Errorf("something is at offset %d", past)
		}
	}
}
