package discovery

import (
	"net/netip"
	"strings"
	"testing"
)

// TestHostDialerWithoutHost: a zero HostDialer returns an error instead of a panic, since Run calls it on its own
// goroutines.
func TestHostDialerWithoutHost(t *testing.T) {
	at := Endpoint{Addr: netip.MustParseAddrPort("192.0.2.1:4420")}
	err := Run(t.Context(), Config{Attempts: 1}, &HostDialer{}, at)
	if err == nil || !strings.Contains(err.Error(), "HostDialer.Host is missing") {
		t.Errorf("%v", err)
	}
}
