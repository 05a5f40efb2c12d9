package rdmatest

import (
	"net/netip"
	"testing"
)

func openLoopback(t *testing.T) Pair {
	n := NewLoopback()
	a, err := n.Open(netip.MustParseAddr("192.0.2.1"), Attrs())
	if err != nil {
		t.Fatal(err)
	}
	b, err := n.Open(netip.MustParseAddr("192.0.2.2"), Attrs())
	if err != nil {
		t.Fatal(err)
	}
	return Pair{
		Active: a, Passive: b, PassiveAddr: netip.MustParseAddr("192.0.2.2"),
		Unreachable: netip.MustParseAddrPort("192.0.2.9:4420"),
	}
}

func TestLoopback(t *testing.T) {
	t.Run("RealTime", func(t *testing.T) { Run(t, openLoopback, Traits{}) })
	t.Run("Bubble", func(t *testing.T) { Run(t, openLoopback, Traits{InBubble: true}) })
}
