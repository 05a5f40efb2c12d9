package multipath

import (
	"maps"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A PathStatus is a path as it is at a moment.
type PathStatus struct {
	Number    int // in the order in which the paths of the subsystem were added, from 0
	Addr      netip.AddrPort
	HostNQN   nvmeof.NQN
	KeepAlive time.Duration // KATO; 0: none

	State State
	Since time.Time // of the state
	Err   error     // why the path is not live; nil where it is

	Reconnects uint64    // how often it came back
	Attempts   int       // to connect, failed since it was last live
	Next       time.Time // the next attempt, or the end of all; zero: none is to come
	Refused    bool      // the last attempt failed for a reason that somebody has to mend

	Losses   map[string]uint64 // how often its controller was lost, by [host.LossReason], or ana where a group stayed in the state Change
	Failures map[string]uint64 // attempts to connect that failed: refused, or unanswered

	Controller capsule.ControllerID        // while it is live
	Identify   *capsule.IdentifyController // the same; not to be changed
	Groups     map[capsule.ANAGroup]capsule.ANAState
	// States are those of the namespaces that are open: by their groups, or optimized
	// where the controller has no ANA. Only while the path is live.
	States map[capsule.NSID]capsule.ANAState
	ANAErr error // why those are old: the log could not be read again
	// Namespaces has those that are open, with the reason why the path is not used
	// for one, nil where it is. Only while the path is live.
	Namespaces map[capsule.NSID]error

	InFlight  int64         // requests on the path
	Completed uint64        // requests that came back from it
	Errors    uint64        // of those, with an error, whether or not they were repeated
	Latency   time.Duration // smoothed, of requests without error; 0: none yet
}

// Status is the path as it is now.
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
