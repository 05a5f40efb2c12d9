package multipath

import (
	"maps"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A PathStatus is the status of a path at a moment.
type PathStatus struct {
	Number    int // in the order in which the paths of the subsystem were added, from 0
	Addr      netip.AddrPort
	HostNQN   nvmeof.NQN
	KeepAlive time.Duration // KATO; 0: none

	State State
	Since time.Time // when the state began
	Err   error     // why the path is not live; nil if it is

	Reconnects uint64    // how often it became live again
	Attempts   int       // connection attempts that failed since it was last live
	Next       time.Time // next attempt, or when it is given up; zero: neither
	Refused    bool      // the last attempt failed, and will again until something is changed

	Losses   map[string]uint64 // of its controller, by [host.LossReason], or "ana" if a group stayed in the state Change
	Failures map[string]uint64 // of connection attempts: refused, or unanswered

	Controller capsule.ControllerID        // while the path is live
	Identify   *capsule.IdentifyController // while the path is live; must not be changed
	Groups     map[capsule.ANAGroup]capsule.ANAState
	// States are the states of the open namespaces: of their ANA groups, or optimized if the controller has no ANA. Set
	// only while the path is live.
	States map[capsule.NSID]capsule.ANAState
	ANAErr error // why the states may be old: the log could not be read again
	// Namespaces has the open namespaces, with the reason why the path is not used for them, or nil if it is. Set only
	// while the path is live.
	Namespaces map[capsule.NSID]error

	InFlight  int64         // requests on the path
	Completed uint64        // requests that completed on the path
	Errors    uint64        // those of them with an error, whether retried or not
	Latency   time.Duration // smoothed, of requests without error; 0: not measured yet
}

// Status returns the present status of the path.
func (p *Path) Status() PathStatus {
	p.sub.mu.Lock()
	defer p.sub.mu.Unlock()
	st := PathStatus{
		Number: p.number, Addr: p.addr(), HostNQN: p.cfg.Options.HostNQN, KeepAlive: p.keepAlive(),
		Refused: p.session == nil && p.life.Refused(), Losses: maps.Clone(p.losses), Failures: maps.Clone(p.failures),
		Reconnects: p.life.Reconnects(), Attempts: p.life.Attempts(),
		InFlight: p.inFlight.Load(), Completed: p.completed.Load(), Errors: p.errors.Load(),
		Latency: time.Duration(p.latency.Load()),
	}
	st.State, st.Since, st.Err = p.life.State()
	st.Next, _ = p.life.Wake()
	if p.session == nil {
		return st
	}
	st.Err = nil
	st.Controller, st.ANAErr = p.session.ctrl.ID(), p.session.anaErr
	st.Identify = p.session.ctrl.Identify()
	if p.session.ana != nil {
		st.Groups = maps.Clone(p.session.ana.Groups)
	}
	st.Namespaces, st.States = map[capsule.NSID]error{}, map[capsule.NSID]capsule.ANAState{}
	for n, a := range p.session.spaces {
		st.Namespaces[n.id] = p.route(n).err
		if a.ns != nil {
			st.States[n.id] = p.session.state(a)
		}
	}
	return st
}
