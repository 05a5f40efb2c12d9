package provider

import (
	"net/netip"
	"testing"
)

func TestIsOurs(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1": true, "127.77.60.1": true, "203.0.113.9": false, "2001:db8::9": false} {
		if got := isOurs(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is ours: %v", addr, got)
		}
	}
}
