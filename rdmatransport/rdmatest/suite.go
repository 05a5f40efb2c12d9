// Package rdmatest holds the suite that every provider of package rdmatransport
// passes ([Run]), and a provider without packets, [Loopback]. The tests of a provider of
// one's own call the one; the other is for tests of what is built on the contract.
package rdmatest

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Pair is two devices that reach each other; the suite closes them.
type Pair struct {
	Active, Passive rdmatransport.Device
	// PassiveAddr is where the passive device can listen.
	PassiveAddr netip.Addr
	// Unreachable is an address at which nobody answers.
	Unreachable netip.AddrPort
}

// A Factory opens a fresh pair; a failure is fatal for the test.
type Factory func(t *testing.T) Pair

// Traits are in what a provider differs from one that has a faultless network and tells
// all it knows. The zero value is that one.
type Traits struct {
	// InBubble runs each test in a bubble of testing/synctest, where a provider must
	// block on nothing but channels and timers.
	InBubble bool
	// Lossy says that the network loses and reorders packets, so that the news of
	// the peer's end may overtake, or stand in for, the refusal that caused it: a
	// request that the peer refuses may then complete as flushed.
	Lossy bool
	// CoarseErrors says that the device does not distinguish the kinds of local failures,
	// nor how the peer is notified of them, as rdma_rxe: any failure is right.
	CoarseErrors bool
	// LooseWindows says that the device checks a window's key and rights, but not its
	// bounds, as rdma_rxe: only those of the region count.
	LooseWindows bool
	// Allocates skips the test that counts allocations, for the stated reason: a
	// network for tests, say, that allocates its packets.
	Allocates string
}

type suite struct {
	open Factory
	Traits
}

// Run runs the suite on what open opens.
func Run(t *testing.T, open Factory, traits Traits) {
	s := &suite{open, traits}
	s.runAll(t, "Connect", connectTests)
	s.runAll(t, "Data", dataTests)
	s.runAll(t, "Keys", keyTests)
	s.runAll(t, "Queue", queueTests)
	s.runAll(t, "Shared", sharedTests)
	s.runAll(t, "Loop", loopTests)
	t.Run("Allocations", s.allocations)
}

// A testCase is one property of a provider.
type testCase struct {
	name string
	run  func(p *pair)
}

func (s *suite) runAll(t *testing.T, group string, cases []testCase) {
	t.Run(group, func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				if !s.InBubble {
					s.runOne(t, c)
					return
				}
				synctest.Test(t, func(t *testing.T) { s.runOne(t, c) })
			})
		}
	})
}

func (s *suite) runOne(t *testing.T, c testCase) {
	devices := s.open(t)
	p := &pair{
		t: t, Pair: devices, lossy: s.Lossy, coarse: s.CoarseErrors, loose: s.LooseWindows,
		a: newEnd(t, "active", devices.Active),
		b: newEnd(t, "passive", devices.Passive),
	}
	defer p.close()
	c.run(p)
}
