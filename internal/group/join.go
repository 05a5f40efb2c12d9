package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// join registers this incarnation. One of the same name that has not ended is fenced in the
// same transaction: it is of this process, or silent.
func (e *Engine) join() {
	key := memberKey(e.cfg.Name)
	if m := e.view.member(e.cfg.Name); m != nil && m.value.Incarnation == e.inc {
		e.stage = member
		e.beats.unsure, e.beats.next = true, e.now
		e.store.beats.outdated(e.store.token, e.now)
		return
	}
	r := registration{e, state.Txn{If: []state.Compare{e.view.members.is(key), e.view.fences.is(fenceKey(e.inc))}}}
	if !r.supersede() {
		return
	}
	r.bury()
	slot, ok := r.slot()
	if !ok {
		return
	}
	m := Member{Version: version, Name: e.cfg.Name, Incarnation: e.inc, Addresses: e.cfg.Addresses, Storage: e.storage, Slot: slot, Session: r.inherit()}
	r.txn.Then = append(r.txn.Then, put(key, encode(m, e.view.members.raw(key))), e.view.relist(e.cfg.Name))
	e.commit(r.txn)
}

// relist is part of each transaction after which another set of gateways is registered.
func (v *view) relist(by string) state.Op {
	return put(ListingKey, encode(Listing{version, by}, v.listing.raw(ListingKey)))
}

// A registration is a transaction that is put together.
type registration struct {
	*Engine
	txn state.Txn
}

// supersede ends the incarnation of the same name that is registered.
func (r *registration) supersede() bool {
	m := r.view.member(r.cfg.Name)
	switch {
	case m == nil:
		return true
	case m.err != nil:
		return false
	case m.value.Ended:
		if r.view.owns(m.value.Incarnation) && r.view.fence(m.value.Incarnation) == nil {
			writeFence(&r.txn, &m.value, 0)
		}
		return true
	}
	p := r.pulses[m.value.Incarnation]
	if !slices.Contains(r.past, m.value.Incarnation) {
		if p.beaten {
			r.alarm(Alarm{Kind: AlarmNameInUse, Gateway: r.cfg.Name, Text: fmt.Sprintf("another gateway with this name is alive, at %s: give each its own (--gateway, or group.gateway in its file)", strings.Join(m.value.Addresses, ", "))})
		}
		if silent := p.at + 2*r.cfg.Interval; r.now < silent {
			r.at(silent)
			return false
		}
	}
	last := r.view.beats.is(beatKey(m.value.Name))
	r.txn.If = append(r.txn.If, last)
	writeFence(&r.txn, &m.value, last.Revision)
	return true
}

// bury writes the fence records of incarnations of this process whose registrations are gone, as where somebody has
// removed them from the store. Nobody else knows by what the storage can refuse them, and nobody takes over what they had.
func (r *registration) bury() {
	registered := r.view.member(r.cfg.Name)
	for _, inc := range r.past {
		if r.view.owns(inc) && r.view.fence(inc) == nil && (registered == nil || registered.value.Incarnation != inc) {
			writeFence(&r.txn, &Member{Name: r.cfg.Name, Incarnation: inc, Storage: r.clients[inc]}, 0)
		}
	}
}

// slot is the range of controller identifiers: that which the name has, or the first free.
func (r *registration) slot() (int, bool) {
	for i := range r.view.slots {
		if s := &r.view.slots[i]; s.value.Name == r.cfg.Name {
			var n int
			if _, err := fmt.Sscanf(s.Key, slotPrefix+"%d", &n); err == nil {
				r.txn.If = append(r.txn.If, state.Compare{Key: s.Key, Revision: s.Revision})
				return n, true
			}
		}
	}
	for n := 1; n <= r.cfg.Slots; n++ {
		if key := slotKey(n); r.view.slots.find(key) == nil && !r.view.registered(n, r.cfg.Name) {
			r.txn.If = append(r.txn.If, state.Compare{Key: key})
			r.txn.Then = append(r.txn.Then, put(key, encode(SlotHolder{version, r.cfg.Name}, nil)))
			return n, true
		}
	}
	r.alarm(Alarm{Kind: AlarmNoSlot, Gateway: r.cfg.Name,
		Text: fmt.Sprintf("all %d ranges of controller identifiers are taken: remove a gateway that is no more", r.cfg.Slots)})
	return 0, false
}

// update registers other addresses of the storage, and that this gateway leaves: whoever was about
// to give it a group has compared its registration, and finds that changed.
func (e *Engine) update() *state.Txn {
	own := e.own()
	m := own.value
	m.Storage, m.Leaving = e.storage, e.leaving > 0
	if slices.Equal(own.value.Storage, m.Storage) && own.value.Leaving == m.Leaving {
		return nil
	}
	return &state.Txn{
		If:   []state.Compare{{Key: own.Key, Revision: own.Revision}},
		Then: []state.Op{put(own.Key, encode(m, own.Value))},
	}
}

// leave ends the registration of a gateway that owns nothing more, and has been registered as one that
// leaves, so that it gets nothing more. One that has not given back
// its groups in time ends all the same, and others fence it: timeouts.
func (e *Engine) leave() {
	own := e.own()
	if !own.value.Leaving || e.view.owns(e.inc) || len(e.held) > 0 || (newcomer{e}).awaited() {
		return
	}
	m := own.value
	m.Ended = true
	e.commit(state.Txn{
		If:   []state.Compare{{Key: own.Key, Revision: own.Revision}},
		Then: []state.Op{put(own.Key, encode(m, own.Value)), e.view.relist(e.cfg.Name)},
	})
	e.stage = left
	e.act(Left{})
}

// sickFor is how long a gateway that could not fence gets no groups, where others can.
const sickFor = 10 * time.Second

func (e *Engine) isSick() bool { return e.stuck || e.behind || e.sick > 0 && e.now < e.sick }

// health notes whether this gateway can fence others.
func (e *Engine) health(sick bool) {
	was := e.isSick()
	e.sick = 0
	if sick {
		e.sick = e.now + sickFor
	}
	e.publish(was)
}

// publish sends a heartbeat soon where others are to know something new.
func (e *Engine) publish(was bool) {
	if was != e.isSick() {
		e.beats.next = min(e.beats.next, e.now+e.cfg.Interval/10)
	}
}

// rank orders gateways: the first that is alive plans.
func rank(a, b *entry[Member]) int {
	return cmp.Or(cmp.Compare(a.value.Slot, b.value.Slot), cmp.Compare(a.value.Name, b.value.Name))
}
