package state

import (
	"iter"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// SightKind is the kind of Identify data by which a host has identified a namespace.
type SightKind uint8

const (
	SightStructure   SightKind = 1 << iota // CNS 00h or 11h: NGUID, EUI-64, size and format
	SightDescriptors                       // CNS 03h: all identifiers
)

// SightSettle is how long a host that has read the identity of a namespace may still send
// commands that are meant for the one before.
const SightSettle = time.Second

// A SightEvent is the result of an Identify command for a namespace that has replaced
// another.
type SightEvent uint8

const (
	SightNothing SightEvent = iota
	SightBegun              // the namespace has to be reported as changed once more
	SightSettles            // the host has read everything, and has identified it when Settled yields it
	SightKnown              // the host has identified it
)

// Sightings are the namespaces that have replaced others and that a host has not
// identified yet.
//
// A response of the controller is no proof that the host has processed it: a command may
// be on its way that another of its threads sent, and hosts compare identifiers only when
// they have read all. Hosts identify one namespace after another, and process each before
// the next. So the proof is that a host which has read everything reads it again: Linux
// reads the structure a second time once it has compared the identifiers of the first;
// where they differ it removes its namespace and identifies the new one at the next event
// of a change, as SPDK and this module's host do. A host that does not read it again is
// given SightSettle.
//
// What everything is depends on the host: not all read descriptors.
type Sightings struct {
	pending     map[capsule.NSID]*sighting
	descriptors bool // the host has read those of some namespace
}

type sighting struct {
	generation uint32
	kinds      SightKind
	due        int64 // when the namespace counts as identified; 0: the host has not read everything
}

// Identified notes an Identify command about a namespace for which Note is not needed.
func (s *Sightings) Identified(k SightKind) { s.descriptors = s.descriptors || k == SightDescriptors }

// Note notes an Identify command about a namespace that the host has not identified yet.
func (s *Sightings) Note(id capsule.NSID, generation uint32, k SightKind, now int64) SightEvent {
	s.Identified(k)
	x := s.pending[id]
	if x == nil || x.generation != generation {
		if s.pending == nil {
			s.pending = make(map[capsule.NSID]*sighting)
		}
		s.pending[id] = &sighting{generation: generation, kinds: k}
		s.pending[id].complete(s, now)
		return SightBegun
	}
	if x.due != 0 {
		delete(s.pending, id)
		return SightKnown
	}
	x.kinds |= k
	if x.complete(s, now) {
		return SightSettles
	}
	return SightNothing
}

// complete reports whether the host has read everything.
func (x *sighting) complete(s *Sightings, now int64) bool {
	if x.kinds&SightStructure == 0 || s.descriptors && x.kinds&SightDescriptors == 0 {
		return false
	}
	x.due = now + int64(SightSettle)
	return true
}

// Settled yields, and forgets, each namespace whose identity the host has read long
// enough ago, with its generation.
func (s *Sightings) Settled(now int64) iter.Seq2[capsule.NSID, uint32] {
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

// Next is when Settled has to be called next, 0 for never.
func (s *Sightings) Next() (at int64) {
	for _, x := range s.pending {
		if x.due != 0 && (at == 0 || x.due < at) {
			at = x.due
		}
	}
	return at
}
