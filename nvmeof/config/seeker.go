package config

// A seeker finds the entries of a text again in one that is much like it, mostly in the same order. It takes each
// once: a document has no namespace twice.
type seeker[K comparable] struct {
	text    []byte
	entries []entry
	taken   []bool // of entries; nil: none is
	at      int    // where the next one is expected
	missed  int
	places  map[K]int // of all entries; nil: not needed yet
}

const (
	// seekAhead is how many entries may be left out before the next one.
	seekAhead = 4
	// seekMisses is how many namespaces may be new before others are looked for in any place.
	seekMisses = 64
)

// near are the entries one of which is likely to be next.
func (s *seeker[K]) near() []entry { return s.entries[s.at:min(s.at+seekAhead, len(s.entries))] }

// take takes the entry of that number of near; nil: it is taken already.
func (s *seeker[K]) take(i int) *entry {
	i += s.at
	if s.taken == nil {
		s.taken = make([]bool, len(s.entries))
	}
	if s.taken[i] {
		return nil
	}
	s.taken[i] = true
	s.at = i + 1
	return &s.entries[i]
}

// anywhere is the entry with a key, where none near is it. While few were missed it does not look: what is
// new takes less than to note where all are.
func (s *seeker[K]) anywhere(key K, keyOf func(*entry) K) *entry {
	if s.missed++; s.missed <= seekMisses {
		return nil
	}
	if s.places == nil {
		s.places = make(map[K]int, len(s.entries))
		for i := range s.entries {
			s.places[keyOf(&s.entries[i])] = i
		}
	}
	i, known := s.places[key]
	if !known {
		return nil
	}
	return s.take(i - s.at)
}
