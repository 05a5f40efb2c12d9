package metrics

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestTwice: a registry that has a target twice, or two of them, returns an error and continues.
func TestTwice(t *testing.T) {
	one, _, _ := startTarget(t, netip.MustParseAddrPort("127.80.9.13:4420"))
	r := prometheus.NewRegistry()
	for range 2 {
		if err := r.Register(NewTarget(TargetConfig{Target: one})); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.Gather(); err == nil || !strings.Contains(err.Error(), "was collected before") {
		t.Errorf("gathered: %v", err)
	}
}
