package softroce

import (
	"net/netip"
	"testing"
)

// TestNetwork: a host with many IPv6 addresses counts as one peer.
func TestNetwork(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32",
		"2001:db8::1": "2001:db8::/64", "2001:db8:0:0:ffff::2": "2001:db8::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := network(netip.MustParseAddr(addr)); got.String() != want {
			t.Errorf("network of %s: %v, want %s", addr, got, want)
		}
	}
	if network(netip.Addr{}).IsValid() {
		t.Error("no address has a network")
	}
}
