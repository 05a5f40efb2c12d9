// Package rdmatest contains the test suite that every provider of package rdmatransport must pass ([Run]), and a
// provider without packets, [Loopback]. Call Run to test a provider of your own; use Loopback to test code that uses
// the contract.
package rdmatest

import (
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Pair is two connected devices; the suite closes them.
type Pair struct {
	Active, Passive rdmatransport.Device
	// PassiveAddr is an address on which the passive device can listen.
	PassiveAddr netip.Addr
	// Unreachable is an address that nothing answers on.
	Unreachable netip.AddrPort
}

// A Factory opens a new pair. It calls t.Fatal if it cannot.
type Factory func(t *testing.T) Pair

// Traits describes how a provider differs from one that reports all errors precisely over a faultless network. The
// zero value means no difference.
type Traits struct {
	// InBubble runs each test in a bubble of testing/synctest, in which a provider must block only on channels and
	// timers.
	InBubble bool
	// Lossy means that the network loses and reorders packets. The notification of the peer's end may then overtake
	// or replace the NAK that caused it, so a request that the peer refuses may complete as flushed.
	Lossy bool
	// CoarseErrors means that the device, like rdma_rxe, does not distinguish kinds of local failures, nor how the
	// peer is notified of them: any failure is accepted.
	CoarseErrors bool
	// LooseWindows means that the device, like rdma_rxe, checks a window's key and rights but not its bounds, only
	// those of the region.
	LooseWindows bool
	// Allocates skips the test that counts allocations, and is the reason: for example a test network that allocates
	// its packets.
	Allocates string
}

type suite struct {
	open Factory
	Traits
}

// Run runs the suite on the devices that open returns.
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

// A testCase tests one property of a provider.
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
