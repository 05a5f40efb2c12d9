package config

// A seeker finds the namespaces of a text among those of the previous text, which has mostly the same ones in the
// same order. Each entry is taken once, since a document does not have a namespace twice.
type seeker[K comparable] struct {
	text    []byte
	entries []entry
	taken   []bool // entries that were taken; nil: none
	at      int    // index of the entry that is expected next
	missed  int
	places  map[K]int // index of each entry; nil: not needed yet
}

const (
	// seekAhead is how many entries are compared with the next namespace: some may have been removed.
	seekAhead = 4
	// seekMisses is how many namespaces may be missed before the map of all entries is made.
	seekMisses = 64
)

// near returns the entries among which the next namespace probably is.
func (s *seeker[K]) near() []entry { return s.entries[s.at:min(s.at+seekAhead, len(s.entries))] }

// take takes entry i of near. It returns nil if that was taken already.
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

// anywhere returns the entry with a key when near does not have it. It returns nil for the first misses: to encode
// or decode a few namespaces takes less time than to make the map of all entries.
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
