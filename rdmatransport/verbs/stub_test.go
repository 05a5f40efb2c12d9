//go:build !(verbs && cgo && linux)

package verbs

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestStub(t *testing.T) {
	_, err := Open(Config{Addr: netip.MustParseAddr("192.0.2.1")})
	if !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "-tags verbs") {
		t.Errorf("Open: %v, want how to build the transport", err)
	}
	if _, err := DeviceName(netip.MustParseAddr("192.0.2.1")); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("DeviceName: %v, want %v", err, ErrNotBuilt)
	}
}
