package state

import (
	"iter"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// SightKind is by what a host has identified a namespace.
type SightKind uint8

const (
	SightStructure   SightKind = 1 << iota // CNS 00h or 11h: NGUID, EUI-64, size and format
	SightDescriptors                       // CNS 03h: all identifiers
)

// SightSettle is how long after it has been told what a namespace is now a host may
// still send what it meant for the one before.
const SightSettle = time.Second

// A SightEvent is what follows from an Identify command about a namespace that has
// replaced another.
type SightEvent uint8

const (
	SightNothing SightEvent = iota
	SightBegun              // the host has to be told once more that the namespace has changed
	SightSettles            // the host knows all, and sees it when Settled says so
	SightKnown              // the host has seen it
)

// Sightings are the namespaces that have replaced others, about which a host is asking.
//
// That the controller has answered is no proof that the host has understood: a request
// may be on its way that another of its threads sent, and hosts compare identifiers only
// when they have them all. Hosts ask about one namespace after another, and act on each
// before they go on. So the proof is that a host that has been told everything asks once
// more: Linux asks for the structure a second time once it has compared the identifiers
// of the first; where they differ it ends what it had at the NSID, and asks again when it
// is told again of a change, as SPDK and this module's host do. One that does not ask again
// is given SightSettle.
//
// What everything is depends on the host: not all ask for descriptors.
type Sightings struct {
	pending     map[capsule.NSID]*sighting
	descriptors bool // the host has asked for them, of whatever namespace
}

type sighting struct {
	generation uint32
	kinds      SightKind
	due        int64 // when the host counts as having seen it; 0: it does not know all yet
}

// Asked notes an Identify command about a namespace that has no need of Note.
func (s *Sightings) Asked(k SightKind) { s.descriptors = s.descriptors || k == SightDescriptors }

// Note notes an Identify command about a namespace that the host has not seen.
func (s *Sightings) Note(id capsule.NSID, generation uint32, k SightKind, now int64) SightEvent {
	s.Asked(k)
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

// complete reports whether the host has been told everything.
func (x *sighting) complete(s *Sightings, now int64) bool {
	if x.kinds&SightStructure == 0 || s.descriptors && x.kinds&SightDescriptors == 0 {
		return false
	}
	x.due = now + int64(SightSettle)
	return true
}

// Settled yields each namespace that the host has been told of for long enough, with its
// generation, and forgets it.
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

// Next is when Settled has something next, 0 for never.
func (s *Sightings) Next() (at int64) {
	for _, x := range s.pending {
		if x.due != 0 && (at == 0 || x.due < at) {
			at = x.due
		}
	}
	return at
}
