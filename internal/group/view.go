package group

import (
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// An entry is a value of the store. An entry with an error is not touched.
type entry[T any] struct {
	state.Entry
	value T
	err   error
}

// A table has the entries of one kind, sorted by key.
type table[T any] []entry[T]

func (t table[T]) find(key string) *entry[T] {
	from, to := 0, len(t)
	for from < to { // not slices.BinarySearchFunc, which calls a function for each comparison: engines search at each step
		if i := (from + to) / 2; t[i].Key < key {
			from = i + 1
		} else {
			to = i
		}
	}
	if from == len(t) || t[from].Key != key {
		return nil
	}
	return &t[from]
}

// revision returns the revision of a key, or 0 if there is none.
func (t table[T]) revision(key string) state.Revision {
	if e := t.find(key); e != nil {
		return e.Revision
	}
	return 0
}

func (t table[T]) raw(key string) []byte {
	if e := t.find(key); e != nil {
		return e.Value
	}
	return nil
}

// is returns the comparison of a key with what was read.
func (t table[T]) is(key string) state.Compare {
	return state.Compare{Key: key, Revision: t.revision(key)}
}

// replaced returns the table of a later snapshot. It does not decode unchanged values again.
func (t table[T]) replaced(all []state.Entry, prefix string) table[T] {
	from, _ := slices.BinarySearchFunc(all, prefix, func(e state.Entry, p string) int { return strings.Compare(e.Key, p) })
	n := 0
	for from+n < len(all) && strings.HasPrefix(all[from+n].Key, prefix) {
		n++
	}
	next, at := make(table[T], n), 0
	for i, e := range all[from : from+n] {
		for at < len(t) && t[at].Key < e.Key {
			at++
		}
		if at < len(t) && t[at].Key == e.Key && t[at].Revision == e.Revision {
			next[i] = t[at]
			continue
		}
		next[i].Entry = e
		next[i].err = decode(e.Value, &next[i].value)
	}
	return next
}

// A view is what was last read from the store.
type view struct {
	revision state.Revision // of everything except heartbeats
	members  table[Member]
	owners   table[Owner]
	moves    table[Move]
	fences   table[FenceRecord]
	slots    table[SlotHolder]
	orders   table[Order]
	beats    table[Beat]
	listing  table[Listing]
	sessions table[Session] // at most one
}

func (v *view) read(s state.Snapshot) {
	v.revision = s.Revision
	v.members = v.members.replaced(s.Entries, memberPrefix)
	v.owners = v.owners.replaced(s.Entries, ownerPrefix)
	v.moves = v.moves.replaced(s.Entries, movePrefix)
	v.fences = v.fences.replaced(s.Entries, fencePrefix)
	v.slots = v.slots.replaced(s.Entries, slotPrefix)
	v.orders = v.orders.replaced(s.Entries, orderPrefix)
	v.listing = v.listing.replaced(s.Entries, ListingKey)
	v.sessions = v.sessions.replaced(s.Entries, SessionKey)
}

// unreadable returns the first value that this gateway cannot read.
func (v *view) unreadable() (key string, err error) {
	for _, first := range []func() (string, error){
		v.members.unreadable, v.owners.unreadable, v.moves.unreadable, v.fences.unreadable, v.slots.unreadable, v.orders.unreadable, v.sessions.unreadable,
	} {
		if key, err = first(); err != nil {
			return key, err
		}
	}
	return "", nil
}

// orRemove returns further advice for a value that cannot be read, if it only contains an order of an administrator.
func orRemove(key string) string {
	if strings.HasPrefix(key, movePrefix) || strings.HasPrefix(key, orderPrefix) {
		return ", or remove the key, which withdraws the administrator's order"
	}
	return ""
}

func (t table[T]) unreadable() (string, error) {
	for i := range t {
		if t[i].err != nil {
			return t[i].Key, t[i].err
		}
	}
	return "", nil
}

func (v *view) owner(id ID) *entry[Owner] { return v.owners.find(ownerKey(id)) }

func (v *view) move(id ID) *entry[Move] { return v.moves.find(moveKey(id)) }

func (v *view) member(name string) *entry[Member] { return v.members.find(memberKey(name)) }

// living returns the registration of an incarnation that has not ended.
func (v *view) living(inc Incarnation) *entry[Member] {
	for i := range v.members {
		if m := &v.members[i]; m.err == nil && m.value.Incarnation == inc && !m.value.Ended {
			return m
		}
	}
	return nil
}

func (v *view) fence(inc Incarnation) *entry[FenceRecord] { return v.fences.find(fenceKey(inc)) }

func (v *view) drained(name string) bool {
	o := v.orders.find(orderKey(name))
	return o != nil && o.value.Drained
}

// beat returns the last heartbeat of an incarnation.
func (v *view) beat(m *Member) Beat {
	if b := v.beats.find(beatKey(m.Name)); b != nil && b.value.Incarnation == m.Incarnation {
		return b.value
	}
	return Beat{}
}

// owns reports whether an incarnation owns any group.
func (v *view) owns(inc Incarnation) bool {
	return slices.ContainsFunc(v.owners, func(o entry[Owner]) bool { return o.value.Phase == Owned && o.value.Incarnation == inc })
}

// superseded reports whether an incarnation has ended in the store. It is false for a registration that cannot be read:
// a gateway that replaces it fences it in the same transaction.
func (v *view) superseded(name string, inc Incarnation, s stage) bool {
	if v.fence(inc) != nil {
		return true
	}
	m := v.member(name)
	if m != nil && m.err != nil {
		return false
	}
	if m != nil && m.value.Incarnation == inc {
		return m.value.Ended // even if the incarnation has not seen its own registration yet
	}
	return s == member
}
