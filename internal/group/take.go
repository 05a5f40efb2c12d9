package group

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A takeover is the part of an engine that decides about takeovers.
type takeover struct{ *Engine }

// An orphan is a group whose owner has ended, or that has none.
type orphan struct {
	group   *Group
	owner   *entry[Owner]       // nil: it never had one
	fence   *entry[FenceRecord] // of its owner; may be nil
	backend Backend             // the rules for the takeover
	leased  bool                // its owner may have a lease in addition to storage that can be fenced
}

// orphans returns the orphans. A group whose owner is neither registered nor fenced is not an orphan: nothing is known
// that would keep that owner from writing.
func (e takeover) orphans() (all []orphan) {
	for i := range e.groups {
		g := &e.groups[i]
		o := orphan{group: g, owner: e.view.owner(g.ID), backend: g.Backend}
		switch {
		case o.owner == nil || o.owner.value.Phase == Free && o.owner.err == nil:
		case o.owner.err != nil || o.owner.value.Incarnation == e.inc:
			continue
		default:
			v := &o.owner.value
			if o.fence = e.view.fence(v.Incarnation); o.fence == nil {
				if m := e.view.member(v.Owner); m == nil || m.value.Incarnation != v.Incarnation {
					e.refuse(g.ID, v, "its owner is neither registered nor fenced, because the group's store was changed by hand: restore the key "+memberKey(v.Owner)+
						", or, when no process of that gateway is running and the storage refuses its clients, remove the key "+o.owner.Key)
				}
				continue
			}
			o.backend, o.leased = stricter(g.Backend, v.Backend), g.Backend == Lease || v.Backend == Lease
		}
		all = append(all, o)
	}
	return append(all, e.removed()...)
}

// removed returns the orphans that are no longer configured, unless this gateway lacks the configuration. They are
// fenced like others and then have no owner. So the gateway that owned them can be removed, and its fence ends.
func (e takeover) removed() (all []orphan) {
	if e.behind {
		return nil
	}
	for i := range e.view.owners {
		o := &e.view.owners[i]
		id, ok := ownerID(o.Key)
		v := &o.value
		if !ok || o.err != nil || v.Phase != Owned || v.Backend == None || e.groups.find(id) != nil {
			continue
		}
		if fence := e.view.fence(v.Incarnation); fence != nil && v.Incarnation != e.inc {
			all = append(all, orphan{&Group{ID: id, Backend: v.Backend}, o, fence, v.Backend, v.Backend == Lease})
		}
	}
	return all
}

// stricter returns the rules for a takeover if the configurations of the two owners differ.
func stricter(a, b Backend) Backend {
	switch {
	case a == None || b == None:
		return None
	case a == Lease && b == Lease:
		return Lease
	}
	return Fenced
}

func (e takeover) refuse(id ID, o *Owner, why string) {
	e.alarm(Alarm{Kind: AlarmRefused, Gateway: o.Owner, Group: id,
		Text: fmt.Sprintf("ANA group %d is not taken over from gateway %s (incarnation %s): %s; without a fence both gateways could write", id, o.Owner, o.Incarnation, why)})
}

// assigned returns the orphans that this gateway must take. All gateways derive the same result from the same state; if
// they differ, the store decides.
func (e takeover) assigned() (mine []orphan) {
	all := e.orphans()
	if len(all) == 0 {
		return nil
	}
	cs := e.candidates()
	for _, o := range all {
		c := e.bestFor(cs, o)
		if c == nil {
			continue
		}
		c.sum += e.weight[o.group.ID]
		if c.value().Incarnation == e.inc {
			mine = append(mine, o)
		}
	}
	return mine
}

func (e takeover) bestFor(cs []*candidate, o orphan) *candidate {
	if o.backend == None && o.owner != nil && o.owner.value.Owner != "" { // the gateway with the data
		return named(cs, o.owner.value.Owner)
	}
	if m := e.view.move(o.group.ID); m != nil && m.value.To != "" { // it was about to move
		if c := named(cs, m.value.To); c != nil && c.takes(o.group) {
			return c
		}
	}
	if c := named(cs, o.group.Preferred); c != nil && c.takes(o.group) || o.group.Backend == None {
		return c
	}
	return best(cs, o.group, "")
}

// take makes this gateway the owner of orphans.
func (e *Engine) take() *state.Txn {
	own, t := e.own(), takeover{e}
	var c change
	for _, o := range t.assigned() {
		if c.full() || !t.proven(o) {
			continue
		}
		key, next := ownerKey(o.group.ID), Owner{Version: version, Owner: e.cfg.Name, Incarnation: e.inc, Epoch: e.latest.after(0, o.group.ID), Phase: Owned, Backend: o.group.Backend}
		if e.groups.find(o.group.ID) == nil {
			next.Owner, next.Incarnation, next.Phase = "", "", Free
		}
		var before []byte
		if o.owner != nil {
			next.Epoch, before = e.latest.after(o.owner.value.Epoch, o.group.ID), o.owner.Value
		}
		c.compare(own.Key, own.Revision)
		if o.fence != nil {
			c.compare(o.fence.Key, o.fence.Revision)
		}
		c.compare(key, e.view.owners.revision(key))
		c.put(key, encode(next, before))
		t.succeed(&o)
		if m := e.view.move(o.group.ID); m != nil {
			c.remove(m.Key, m.Revision)
		}
	}
	return c.txn()
}

// proven reports whether the previous owner cannot write any more.
func (e takeover) proven(o orphan) bool {
	if o.fence == nil {
		return true
	}
	f := &o.fence.value
	if o.backend == None {
		return true // the new owner is the same gateway
	}
	if over := e.leaseOver(f); o.leased && e.now < over {
		e.at(over)
		return false
	}
	if o.backend == Lease {
		e.alarm(Alarm{Kind: AlarmUnfenced, Gateway: f.Name, Group: o.group.ID,
			Text: fmt.Sprintf("ANA group %d was taken over from gateway %s without a fence, after its lease expired: the storage of this ANA group cannot fence a gateway", o.group.ID, f.Name)})
		return true
	}
	if len(f.Storage) == 0 {
		e.refuse(o.group.ID, &o.owner.value, "the addresses of the gateway's storage clients are not known, so the storage cannot be told to refuse them")
		return false
	}
	return e.fences.hold(f.Incarnation, e.now, e.cfg.FenceRenew)
}

// leaseOver returns when the owner of leases has stopped: a whole term after its last heartbeat was seen. If this
// gateway has not seen that heartbeat, it is a term after the fence record was seen, which no heartbeat follows.
func (e takeover) leaseOver(f *FenceRecord) time.Duration {
	p := e.observed[f.Incarnation]
	if p.revision != 0 && p.revision == f.Beat {
		return p.at + e.cfg.LeaseTerm
	}
	return p.ended + e.cfg.LeaseTerm
}
