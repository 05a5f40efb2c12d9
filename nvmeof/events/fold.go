package events

import (
	"net/netip"
	"slices"
	"time"
)

// A fold counts events that are equal to a recorded one.
type fold struct {
	key   Event // the event without the fields that may differ
	until time.Time
	count int       // events that were counted instead of recorded
	last  time.Time // time of the last of them
}

// folds are the current ones, the oldest first.
type folds struct{ list []fold }

const (
	foldTime   = 10 * time.Second
	maxFolds   = 64
	perAddress = 4 // different refusals of one address within foldTime
)

// keyOf returns the event without the fields in which equal events may differ: number, time, count and port.
func keyOf(e *Event) Event {
	k := *e
	k.Seq, k.Time, k.Count, k.Address = 0, time.Time{}, 0, machineOf(e.Address)
	return k
}

// machineOf returns an address without its port.
func machineOf(address string) string {
	if a, err := netip.ParseAddrPort(address); err == nil {
		return a.Addr().String()
	}
	return address
}

// take reports whether e was counted in an earlier event and is not to be recorded. If not, it starts a fold for e.
// If e's address has too many different refusals, e is replaced by the event that stands for the rest of them.
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

// manyOf reports whether the address of key has reached the limit of different events of that kind.
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

// due removes the folds whose time is over, and returns an event with the count for each that has one.
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

// next returns the time until the first fold with a count ends; 0: no fold has a count.
func (f *folds) next(now time.Time) time.Duration {
	for i := range f.list {
		if f.list[i].count > 0 {
			return max(f.list[i].until.Sub(now), time.Millisecond)
		}
	}
	return 0
}
