package access

import (
	"sync"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// Identifiers maps each host identifier to the host that owns it. Reservations identify hosts by their
// identifiers, which any host can send, so a host NQN that uses one excludes others from it: as long as it is
// connected or, if it has authenticated, permanently. The zero value has no entries.
type Identifiers struct {
	mu  sync.Mutex
	ids map[capsule.HostID]use
}

type use struct {
	nqn    nvmeof.NQN
	uses   int  // number of controllers
	proven bool // the host had a key, and has authenticated

	// A guest is another host that is registered with the identifier and uses it while this one is disconnected.
	guest  nvmeof.NQN
	guests int // number of controllers of the guest
}

// now returns the user of an identifier. A disconnected host that no longer has a key leaves it to its guest.
func (o *Identifiers) now(id capsule.HostID, keyed func(nqn nvmeof.NQN) bool) (use, bool) {
	u, found := o.ids[id]
	if u.guests > 0 && u.uses == 0 && !keyed(u.nqn) {
		u = use{nqn: u.guest, uses: u.guests}
	}
	return u, found
}

// A Claim is a host's use of an identifier.
type Claim struct {
	ID     capsule.HostID
	NQN    nvmeof.NQN
	Proven bool // it has authenticated as the host of this NQN
	// Registered means that it is registered with the identifier where it connects, so that it may return there
	// while the other user of the identifier is disconnected.
	Registered bool
}

// Take adds a use, which Release ends, unless the identifier belongs to another host. A host that has
// authenticated takes it from one that has not, whose NQN is returned as displaced. keyed reports whether a host
// has a key: a host that no longer has one owns nothing while it is disconnected.
func (o *Identifiers) Take(c Claim, keyed func(nqn nvmeof.NQN) bool) (holder, displaced nvmeof.NQN, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, found := o.now(c.ID, keyed)
	switch {
	case !found:
	case now.nqn == c.NQN:
		if now.guests > 0 {
			displaced, now.guest, now.guests = now.guest, "", 0
		}
	case now.uses == 0 && !keyed(now.nqn):
		now = use{}
	case now.uses == 0 && c.Registered && !c.Proven && (now.guests == 0 || now.guest == c.NQN):
		now.guest, now.guests = c.NQN, now.guests+1
		o.ids[c.ID] = now
		return c.NQN, "", true
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
	o.ids[c.ID] = use{nqn: c.NQN, uses: now.uses + 1, proven: now.proven || c.Proven}
	return c.NQN, displaced, true
}

// forget frees the identifiers that a host used before, so that a disconnected host owns only one.
func (o *Identifiers) forget(nqn nvmeof.NQN) {
	for id, now := range o.ids {
		switch {
		case now.nqn != nqn || now.uses > 0:
		case now.guests > 0:
			o.ids[id] = use{nqn: now.guest, uses: now.guests}
		default:
			delete(o.ids, id)
		}
	}
}

// Other returns the host that has the identifier, if the claiming host may not use it.
func (o *Identifiers) Other(c Claim, keyed func(nqn nvmeof.NQN) bool) (holder nvmeof.NQN, taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, found := o.now(c.ID, keyed)
	if !found || now.nqn == c.NQN || now.uses == 0 && !keyed(now.nqn) || c.Proven && !now.proven {
		return "", false
	}
	return now.nqn, true
}

// Release ends a use. It does nothing for a host that was displaced.
func (o *Identifiers) Release(id capsule.HostID, nqn nvmeof.NQN) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, found := o.ids[id]
	if found && now.guests > 0 && now.guest == nqn {
		if now.guests--; now.guests == 0 {
			now.guest = ""
		}
		o.ids[id] = now
		return
	}
	if !found || now.nqn != nqn || now.uses == 0 {
		return
	}
	if now.uses--; now.uses == 0 && !now.proven {
		delete(o.ids, id)
		return
	}
	o.ids[id] = now
}

// InUse reports whether a host is connected with the identifier.
func (o *Identifiers) InUse(id capsule.HostID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[id].uses+o.ids[id].guests > 0
}
