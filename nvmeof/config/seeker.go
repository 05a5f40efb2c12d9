package config

// A seeker finds the entries of a text again in one that is much like it, mostly in the same order.
type seeker[K comparable] struct {
	text    []byte
	entries []entry
	at      int // where the next one is expected
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

// take takes the entry of that number of near.
func (s *seeker[K]) take(i int) *entry {
	s.at += i + 1
	return &s.entries[s.at-1]
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
	s.at = i
	return s.take(0)
}
