package discovery

import (
	"net/netip"
	"strings"
	"testing"
)

// TestHostDialerWithoutHost: a dialer that was not filled in is an error, since Run calls it on goroutines of its own.
func TestHostDialerWithoutHost(t *testing.T) {
	at := Endpoint{Addr: netip.MustParseAddrPort("192.0.2.1:4420")}
	err := Run(t.Context(), Config{Attempts: 1}, &HostDialer{}, at)
	if err == nil || !strings.Contains(err.Error(), "HostDialer.Host is missing") {
		t.Errorf("%v", err)
	}
}
