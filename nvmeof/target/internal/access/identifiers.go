package access

import (
	"sync"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Identifiers maps each host identifier to the host that owns it. Reservations identify hosts
// by their identifiers, which any host can send, so a host NQN that uses one excludes
// others from it: as long as it is connected or, if it has authenticated, for good. The
// zero value has none.
type Identifiers struct {
	mu  sync.Mutex
	ids map[capsule.HostID]use
}

type use struct {
	nqn    nvmeof.NQN
	uses   int  // controllers
	proven bool // the name had a key, and has authenticated
}

// A Claim is a host's use of an identifier.
type Claim struct {
	ID     capsule.HostID
	NQN    nvmeof.NQN
	Proven bool // it has authenticated as the host of this name
}

// Take adds a use that Release ends, unless the identifier is another host's. A host that
// has authenticated takes it from one that has not, whose name is displaced. keyed
// reports whether a host has a key: one that no longer has owns nothing while it is
// disconnected.
func (o *Identifiers) Take(c Claim, keyed func(nqn nvmeof.NQN) bool) (holder, displaced nvmeof.NQN, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, found := o.ids[c.ID]
	switch {
	case !found || now.nqn == c.NQN:
	case now.uses == 0 && !keyed(now.nqn):
		now = use{}
	case c.Proven && !now.proven:
		displaced, now = now.nqn, use{}
	default:
		return now.nqn, "", false
	}
	if c.Proven {
		o.forget(c.NQN)
	}
	if o.ids == nil {
		o.ids = make(map[capsule.HostID]use)
	}
	o.ids[c.ID] = use{c.NQN, now.uses + 1, now.proven || c.Proven}
	return c.NQN, displaced, true
}

// forget frees what a host used before, so that it owns one identifier while it is
// disconnected and not as many as it likes.
func (o *Identifiers) forget(nqn nvmeof.NQN) {
	for id, now := range o.ids {
		if now.nqn == nqn && now.uses == 0 {
			delete(o.ids, id)
		}
	}
}

// Other returns the name of the host that has the identifier, if the host may not use it.
func (o *Identifiers) Other(c Claim, keyed func(nqn nvmeof.NQN) bool) (holder nvmeof.NQN, taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, found := o.ids[c.ID]
	if !found || now.nqn == c.NQN || now.uses == 0 && !keyed(now.nqn) || c.Proven && !now.proven {
		return "", false
	}
	return now.nqn, true
}

// Release ends a use. A host that was displaced has none to end.
func (o *Identifiers) Release(id capsule.HostID, nqn nvmeof.NQN) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, found := o.ids[id]
	if !found || now.nqn != nqn || now.uses == 0 {
		return
	}
	if now.uses--; now.uses == 0 && !now.proven {
		delete(o.ids, id)
		return
	}
	o.ids[id] = now
}
