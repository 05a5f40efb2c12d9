package state

import (
	"iter"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// IdentifyKind is the kind of Identify data by which a host has identified a namespace.
type IdentifyKind uint8

const (
	IdentifyStructure   IdentifyKind = 1 << iota // CNS 00h or 11h: NGUID, EUI-64, size and format
	IdentifyDescriptors                          // CNS 03h: all identifiers
)

// IdentifySettle is how long a host that has read the identity of a namespace may still send commands that are
// meant for the previous one.
const IdentifySettle = time.Second

// An IdentifyEvent is the result of an Identify command for a namespace that has replaced another one.
type IdentifyEvent uint8

const (
	IdentifyNothing IdentifyEvent = iota
	IdentifyBegun                 // the namespace has to be reported as changed once more
	IdentifySettles               // the host has read everything; it has identified the namespace when Settled yields it
	IdentifyKnown                 // the host has identified it
)

// Unidentified has the namespaces that have replaced others and that a host has not identified yet.
//
// A response of the controller does not prove that the host has processed it: another thread of the host may have
// sent a command that is still under way, and hosts compare identifiers only when they have read all of them.
// Hosts identify one namespace after another, and process each before the next. So the proof is that a host which
// has read everything reads it again: Linux reads the structure a second time after it has compared the
// identifiers of the first. If they differ, it removes its namespace and identifies the new one at the next change
// event, as SPDK and this module's host do. A host that does not read it again gets IdentifySettle of time.
//
// What a host reads in total depends on the host: not all read descriptors.
type Unidentified struct {
	pending     map[capsule.NSID]*successor
	descriptors bool // the host has read the descriptors of some namespace
}

type successor struct {
	generation uint32
	kinds      IdentifyKind
	due        int64 // when the namespace counts as identified; 0: the host has not read everything
}

// Identified records an Identify command for a namespace for which Note is not needed.
func (s *Unidentified) Identified(k IdentifyKind) {
	s.descriptors = s.descriptors || k == IdentifyDescriptors
}

// Note records an Identify command for a namespace that the host has not identified yet.
func (s *Unidentified) Note(id capsule.NSID, generation uint32, k IdentifyKind, now int64) IdentifyEvent {
	s.Identified(k)
	x := s.pending[id]
	if x == nil || x.generation != generation {
		if s.pending == nil {
			s.pending = make(map[capsule.NSID]*successor)
		}
		s.pending[id] = &successor{generation: generation, kinds: k}
		s.pending[id].complete(s, now)
		return IdentifyBegun
	}
	if x.due != 0 {
		delete(s.pending, id)
		return IdentifyKnown
	}
	x.kinds |= k
	if x.complete(s, now) {
		return IdentifySettles
	}
	return IdentifyNothing
}

// complete reports whether the host has read everything, and if so starts IdentifySettle.
func (x *successor) complete(s *Unidentified, now int64) bool {
	if x.kinds&IdentifyStructure == 0 || s.descriptors && x.kinds&IdentifyDescriptors == 0 {
		return false
	}
	x.due = now + int64(IdentifySettle)
	return true
}

// Settled removes and yields each namespace, with its generation, whose identity the host has read at least
// IdentifySettle ago.
func (s *Unidentified) Settled(now int64) iter.Seq2[capsule.NSID, uint32] {
	return func(yield func(capsule.NSID, uint32) bool) {
		for id, x := range s.pending {
			if x.due != 0 && x.due <= now {
				delete(s.pending, id)
				if !yield(id, x.generation) {
					return
				}
			}
		}
	}
}

// Next returns when Settled has to be called next; 0 means never.
func (s *Unidentified) Next() (at int64) {
	for _, x := range s.pending {
		if x.due != 0 && (at == 0 || x.due < at) {
			at = x.due
		}
	}
	return at
}
