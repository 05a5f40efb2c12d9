package statetest

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A contained is the state of porcupine's model: the content of a store without the journal.
type contained struct {
	last    state.Revision // step
	entries []state.Entry
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return contained{} },
		Step: func(s, in, out any) (bool, any) {
			return s.(contained).step(in.(input), out.(output))
		},
		Equal: func(a, b any) bool { return a.(contained).equal(b.(contained)) },
	}
}

func (s contained) equal(o contained) bool {
	return s.last == o.last && slices.EqualFunc(s.entries, o.entries, sameEntry)
}

func sameEntry(a, b state.Entry) bool {
	return a.Key == b.Key && a.Revision == b.Revision && bytes.Equal(a.Value, b.Value)
}

// step reports whether a reply is possible in this state, and returns the state after it.
func (s contained) step(in input, out output) (bool, contained) {
	switch {
	case in.get:
		return s.reads(in.prefix, out.snap), s
	case out.result.Done != s.holds(in.txn.If):
		return false, s
	case !out.result.Done:
		return out.result.Revision >= s.last, s
	case out.result.Revision <= s.last:
		return false, s
	}
	next := s.put(in.txn.Then, out.result.Revision)
	next.last = out.result.Revision
	return true, next
}

// reads reports whether a snapshot is one of this state.
func (s contained) reads(prefix string, snap state.Snapshot) bool {
	rest := slices.DeleteFunc(slices.Clone(snap.Entries), func(e state.Entry) bool { return strings.HasPrefix(e.Key, journal) })
	for _, e := range s.entries {
		if !strings.HasPrefix(e.Key, prefix) {
			continue
		}
		if len(rest) == 0 || !sameEntry(rest[0], e) {
			return false
		}
		rest = rest[1:]
	}
	return len(rest) == 0 && snap.Revision >= s.last
}

func (s contained) find(key string) (n int, found bool) {
	return slices.BinarySearchFunc(s.entries, key, func(e state.Entry, key string) int { return cmp.Compare(e.Key, key) })
}

func (s contained) holds(all []state.Compare) bool {
	for _, c := range all {
		n, found := s.find(c.Key)
		if found && s.entries[n].Revision != c.Revision || !found && c.Revision != 0 {
			return false
		}
	}
	return true
}

func (s contained) put(ops []state.Op, r state.Revision) contained {
	s.entries = slices.Clone(s.entries)
	for _, o := range ops {
		n, found := s.find(o.Key)
		switch {
		case o.Delete && found:
			s.entries = slices.Delete(s.entries, n, n+1)
		case o.Delete:
		case found:
			s.entries[n] = state.Entry{Key: o.Key, Value: o.Value, Revision: r}
		default:
			s.entries = slices.Insert(s.entries, n, state.Entry{Key: o.Key, Value: o.Value, Revision: r})
		}
	}
	return s
}
