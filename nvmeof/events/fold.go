package events

import (
	"net/netip"
	"slices"
	"time"
)

// A fold counts equal events.
type fold struct {
	key   Event // without what differs
	until time.Time
	count int       // that were not recorded
	last  time.Time // of them
}

// folds are those under way, the oldest first.
type folds struct{ list []fold }

const (
	foldTime   = 10 * time.Second
	maxFolds   = 64
	perAddress = 4 // different events of a kind and an address in that time
)

// keyOf is what makes two events equal: all but time, number and the port.
func keyOf(e *Event) Event {
	k := *e
	k.Seq, k.Time, k.Count, k.Address = 0, time.Time{}, 0, machineOf(e.Address)
	return k
}

// machineOf is an address without its port.
func machineOf(address string) string {
	if a, err := netip.ParseAddrPort(address); err == nil {
		return a.Addr().String()
	}
	return address
}

// take reports whether an event is counted in an earlier one. If it is not, later ones are
// counted in it, and it may be made the one of its address that stands for all further ones.
func (f *folds) take(e *Event, now time.Time) bool {
	key := keyOf(e)
	if f.count(&key, now) {
		return true
	}
	if e.Kind == Refused && f.manyOf(&key) {
		key = Event{Kind: key.Kind, Severity: key.Severity, Address: key.Address, Text: "others of this address"}
		*e = key
		if f.count(&key, now) {
			return true
		}
	}
	if len(f.list) < maxFolds {
		f.list = append(f.list, fold{key: key, until: now.Add(foldTime)})
	}
	return false
}

// manyOf reports whether an address has as many different events of a kind as one may have.
func (f *folds) manyOf(key *Event) bool {
	same := 0
	for i := range f.list {
		if k := &f.list[i].key; k.Kind == key.Kind && k.Address == key.Address && key.Address != "" {
			same++
		}
	}
	return same >= perAddress
}

func (f *folds) count(key *Event, now time.Time) bool {
	i := slices.IndexFunc(f.list, func(x fold) bool { return x.key == *key })
	if i < 0 {
		return false
	}
	f.list[i].count++
	f.list[i].last = now
	return true
}

// due takes out what has ended, as events that have the counts.
func (f *folds) due(now time.Time) (ended []Event) {
	for len(f.list) > 0 && !now.Before(f.list[0].until) {
		if x := f.list[0]; x.count > 0 {
			e := x.key
			e.Count, e.Time = x.count, x.last
			ended = append(ended, e)
		}
		f.list = f.list[1:]
	}
	return ended
}

// next is how long it takes until one ends that has a count; 0: none has.
func (f *folds) next(now time.Time) time.Duration {
	for i := range f.list {
		if f.list[i].count > 0 {
			return max(f.list[i].until.Sub(now), time.Millisecond)
		}
	}
	return 0
}
