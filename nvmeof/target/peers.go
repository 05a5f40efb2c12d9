package target

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/discoverylog"
)

// A Peer is a listener of another target that serves the same subsystems.
type Peer struct {
	Port PortID         // its identifier, unique among the listeners of all targets
	Addr netip.AddrPort // where hosts reach it
	// Provider is PRTYPE, if its device reports that; default: none.
	Provider uint8
	// Subsystems are those exposed on it; nil: those that [Subsystem.SetPorts] exposes there.
	Subsystems []nvmeof.NQN
}

// exposes reports whether a subsystem is exposed on the listener.
func (p *Peer) exposes(e *exposure) bool {
	if p.Subsystems == nil {
		return exposedOn(e.ports, p.Port)
	}
	return slices.Contains(p.Subsystems, e.nqn)
}

// record returns the log entry of a subsystem on the listener.
func (p *Peer) record(nqn nvmeof.NQN) discoverylog.Record {
	return discoverylog.Record{
		Kind: capsule.SubsystemNVM, Transport: capsule.TransportRDMA, Provider: p.Provider, Port: uint16(p.Port), Addr: p.Addr,
		NQN: nqn, TREQ: capsule.TREQNoFlowControl,
	}
}

func (p *Peer) check() error {
	if p.Port == 0 || !p.Addr.IsValid() || p.Addr.Addr().IsUnspecified() || p.Addr.Port() == 0 {
		return fmt.Errorf("listener %d of another target, at %v: it needs an identifier, and an address and a port that hosts can reach", p.Port, p.Addr)
	}
	return nil
}

// SetPeers sets the listeners of the other targets, which the discovery log lists beside the target's own: for
// each subsystem, to the hosts that it allows. If a log changes, its generation becomes at least the given one.
// The caller must increase that with each change of the list at any target, so that hosts which read the log of
// one target after that of another do not take it for an older one. Hosts whose logs change are notified.
func (g *Gateway) SetPeers(peers []Peer, generation uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.target == nil {
		return errNoTarget
	}
	t := g.target
	t.mu.Lock()
	defer t.mu.Unlock()
	next := make([]Peer, 0, len(peers))
	for _, p := range peers {
		if err := p.check(); err != nil {
			return err
		}
		switch same := func(o Peer) bool { return o.Port == p.Port }; {
		case t.listener(p.Port) != nil:
			return fmt.Errorf("listener %d of another target, at %v: this target has a listener with that identifier: give each its own", p.Port, p.Addr)
		case slices.ContainsFunc(next, same):
			return fmt.Errorf("two listeners %d of other targets, one at %v: give each its own identifier", p.Port, p.Addr)
		}
		p.Subsystems = slices.Clone(p.Subsystems)
		next = append(next, p)
	}
	slices.SortFunc(next, func(a, b Peer) int { return int(a.Port) - int(b.Port) })
	t.reshapeLocked(nil, func() {
		t.peers = next
		t.generation = max(t.generation+1, generation) - 1 // reveal increments it
	})
	return nil
}

// Peers returns the listeners that SetPeers set.
func (g *Gateway) Peers() []Peer {
	if g.target == nil {
		return nil
	}
	g.target.mu.Lock()
	defer g.target.mu.Unlock()
	return slices.Clone(g.target.peers)
}
