package group

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A taker decides what is to be taken over.
type taker struct{ *Engine }

// An orphan is a group whose owner has ended, or that has none.
type orphan struct {
	group   *Group
	owner   *entry[Owner]       // nil: it never had one
	fence   *entry[FenceRecord] // of its owner; nil: it has none
	backend Backend             // what the takeover has to obey
	leased  bool                // its owner may have a lease, beside what the storage fences
}

// orphans finds them. A group whose owner is neither registered nor fenced is not one: nobody
// knows what would keep that owner from writing.
func (e taker) orphans() (all []orphan) {
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
					e.refuse(g.ID, v, "it is neither registered nor fenced, since somebody has changed the store: restore the value of "+memberKey(v.Owner)+
						", or, once no process of that gateway is left and the storage refuses its clients, remove "+o.owner.Key)
				}
				continue
			}
			o.backend, o.leased = stricter(g.Backend, v.Backend), g.Backend == Lease || v.Backend == Lease
		}
		all = append(all, o)
	}
	return append(all, e.removed()...)
}

// removed are the orphans that are configured no more, unless it is this gateway that does not have the
// configuration. They are fenced as others are, and then have no owner: so the gateway that had them
// can be removed, and its fence ends.
func (e taker) removed() (all []orphan) {
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

// stricter is what a takeover obeys where owner and taker have different configurations.
func stricter(a, b Backend) Backend {
	switch {
	case a == None || b == None:
		return None
	case a == Lease && b == Lease:
		return Lease
	}
	return Fenced
}

func (e taker) refuse(id ID, o *Owner, why string) {
	e.alarm(Alarm{Kind: AlarmRefused, Gateway: o.Owner, Group: id,
		Text: fmt.Sprintf("ANA group %d is not taken over from %s (%s): %s; without a fence both would write", id, o.Owner, o.Incarnation, why)})
}

// assigned are the orphans that this gateway is to take. All gateways come to the same
// result from the same state; where they differ, the store decides.
func (e taker) assigned() (mine []orphan) {
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

func (e taker) bestFor(cs []*candidate, o orphan) *candidate {
	if o.backend == None && o.owner != nil && o.owner.value.Owner != "" { // who has the data
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
	own, taker := e.own(), taker{e}
	var c change
	for _, o := range taker.assigned() {
		if c.full() || !taker.proven(o) {
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
		taker.succeed(&o)
		if m := e.view.move(o.group.ID); m != nil {
			c.remove(m.Key, m.Revision)
		}
	}
	return c.txn()
}

// proven reports whether the owner before cannot write any more.
func (e taker) proven(o orphan) bool {
	if o.fence == nil {
		return true
	}
	f := &o.fence.value
	if o.backend == None {
		return true // of the same gateway
	}
	if over := e.leaseOver(f); o.leased && e.now < over {
		e.at(over)
		return false
	}
	if o.backend == Lease {
		e.alarm(Alarm{Kind: AlarmUnfenced, Gateway: f.Name, Group: o.group.ID,
			Text: fmt.Sprintf("ANA group %d was taken over from %s after the term of the lease, unfenced: the storage of this group cannot fence", o.group.ID, f.Name)})
		return true
	}
	if len(f.Storage) == 0 {
		e.refuse(o.group.ID, &o.owner.value, "the addresses of its storage clients are not known")
		return false
	}
	return e.fences.hold(f.Incarnation, e.now, e.cfg.FenceRenew)
}

// leaseOver is when the owner of leases has stopped: a whole term after its last heartbeat
// was seen, or, if this gateway has not seen that, after the fence record was, which no
// heartbeat follows.
func (e taker) leaseOver(f *FenceRecord) time.Duration {
	p := e.pulses[f.Incarnation]
	if p.revision != 0 && p.revision == f.Beat {
		return p.at + e.cfg.LeaseTerm
	}
	return p.ended + e.cfg.LeaseTerm
}
