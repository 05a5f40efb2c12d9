package group

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// join registers this incarnation. If an incarnation of the same name has not ended, the same transaction fences it: it
// belongs to this process, or is silent.
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
	r.fencePast()
	slot, ok := r.slot()
	if !ok {
		return
	}
	m := Member{Version: version, Name: e.cfg.Name, Incarnation: e.inc, Addresses: e.cfg.Addresses, Storage: e.storage, Slot: slot, Session: r.inherit()}
	r.txn.Then = append(r.txn.Then, put(key, encode(m, e.view.members.raw(key))), e.view.relist(e.cfg.Name))
	e.commit(r.txn)
}

// relist returns the operation that must be part of each transaction that changes the set of registered gateways.
func (v *view) relist(by string) state.Op {
	return put(ListingKey, encode(Listing{version, by}, v.listing.raw(ListingKey)))
}

// A registration is a transaction under construction.
type registration struct {
	*Engine
	txn state.Txn
}

// supersede ends the registered incarnation of the same name. It returns false if that is not possible yet.
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
	p := r.observed[m.value.Incarnation]
	if !slices.Contains(r.past, m.value.Incarnation) {
		if p.beaten {
			r.alarm(Alarm{Kind: AlarmNameInUse, Gateway: r.cfg.Name, Text: fmt.Sprintf("another gateway with this name is running, at %s: give each gateway its own name (--gateway, or group.gateway in the configuration)", strings.Join(m.value.Addresses, ", "))})
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

// fencePast writes the fence records of incarnations of this process whose registrations are gone, for example because they
// were removed from the store by hand. No other gateway knows their storage addresses, so none could take over their
// groups.
func (r *registration) fencePast() {
	registered := r.view.member(r.cfg.Name)
	for _, inc := range r.past {
		if r.view.owns(inc) && r.view.fence(inc) == nil && (registered == nil || registered.value.Incarnation != inc) {
			writeFence(&r.txn, &Member{Name: r.cfg.Name, Incarnation: inc, Storage: r.clients[inc]}, 0)
		}
	}
}

// slot returns the range of controller identifiers: that of the name, or the first free one.
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
		Text: fmt.Sprintf("all %d ranges of controller identifiers are in use: remove a gateway that no longer exists (nvmeof gateway remove)", r.cfg.Slots)})
	return 0, false
}

// update registers new storage addresses, and that this gateway leaves. A gateway that is about to give it a group
// compares its registration, and fails since that has changed.
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

// leave ends the registration of a leaving gateway that owns nothing more. The gateway must first be registered as
// leaving, so that it gets no more groups. If it does not give back its groups in time, it ends in any case and other
// gateways fence it: see timeouts.
func (e *Engine) leave() {
	own := e.own()
	if !own.value.Leaving || e.view.owns(e.inc) || len(e.held) > 0 || (sessionFinder{e}).awaited() {
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

// sickFor is how long a gateway that failed to fence gets no groups if other gateways can take them.
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

// publish sends a heartbeat soon if the gateway's health has changed.
func (e *Engine) publish(was bool) {
	if was != e.isSick() {
		e.beats.next = min(e.beats.next, e.now+e.cfg.Interval/10)
	}
}

// rank orders gateways: the first one that is alive is the planner.
func rank(a, b *entry[Member]) int {
	return cmp.Or(cmp.Compare(a.value.Slot, b.value.Slot), cmp.Compare(a.value.Name, b.value.Name))
}
