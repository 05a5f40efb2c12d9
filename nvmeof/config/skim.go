package config

import (
	"bytes"
	"slices"
)

// A skimmer finds the namespaces of a JSON document. It does not check the syntax of what it skips: that part is
// parsed later.
type skimmer struct {
	text   []byte
	before seeker[string] // the previous text

	at         int
	copied     int    // offset up to which the text was copied to out or left out
	out        []byte // text without the known namespaces
	entries    []entry
	subsystems []int // index of the first entry of each subsystem
}

// rest returns the text without the known namespaces.
func (s *skimmer) rest() []byte { return append(s.out, s.text[s.copied:]...) }

// document reports whether it could skim the whole text.
func (s *skimmer) document() bool {
	return s.object(func(name []byte) bool {
		if string(name) != "subsystems" {
			return s.value()
		}
		return len(s.subsystems) == 0 && s.list(s.subsystem)
	})
}

func (s *skimmer) subsystem() bool {
	s.subsystems = append(s.subsystems, len(s.entries))
	seen := false
	return s.object(func(name []byte) bool {
		if string(name) != "namespaces" {
			return s.value()
		}
		again := seen
		seen = true
		return !again && s.namespaces()
	})
}

// namespaces leaves out the known namespaces, and the commas between them.
func (s *skimmer) namespaces() bool {
	began, kept := s.skip(), 0
	if !s.list(func() bool {
		from := s.at
		if s.text[from] != '{' {
			return false
		}
		known := s.known()
		if known == nil {
			if !s.value() {
				return false
			}
			known = s.before.anywhere(string(s.text[from:s.at]), func(e *entry) string { return string(s.before.text[e.from:e.to]) })
		}
		n := (*Namespace)(nil)
		if known != nil {
			n = known.namespace
		} else {
			if kept++; kept == 1 {
				s.out = append(append(s.out, s.text[s.copied:began]...), '[')
			} else {
				s.out = append(s.out, ',')
			}
			s.out = append(s.out, s.text[from:s.at]...)
			s.copied = s.at
		}
		s.entries = append(s.entries, entry{from, s.at, n})
		return true
	}) {
		return false
	}
	if kept == 0 {
		s.out = append(append(s.out, s.text[s.copied:began]...), '[')
	}
	s.out = append(s.out, ']')
	s.copied = s.at
	return true
}

// known takes the next namespace if the previous text has one with the same text, else it returns nil.
func (s *skimmer) known() *entry {
	for i, e := range s.before.near() {
		if !bytes.HasPrefix(s.text[s.at:], s.before.text[e.from:e.to]) {
			continue
		}
		if known := s.before.take(i); known != nil {
			s.at += e.to - e.from
			return known
		}
	}
	return nil
}

// skip skips white space, and returns the offset after it.
func (s *skimmer) skip() int {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return s.at
		}
	}
	return s.at
}

// is skips white space and the byte c. It reports false if another byte follows.
func (s *skimmer) is(c byte) bool {
	if at := s.skip(); at == len(s.text) || s.text[at] != c {
		return false
	}
	s.at++
	return true
}

// object calls of at the value of each field.
func (s *skimmer) object(of func(name []byte) bool) bool {
	return s.is('{') && (s.is('}') || s.members('}', func() bool {
		from := s.at
		if !s.quoted() {
			return false
		}
		name := s.text[from+1 : s.at-1]
		return !slices.Contains(name, '\\') && s.is(':') && s.skip() < len(s.text) && of(name)
	}))
}

func (s *skimmer) list(of func() bool) bool { return s.is('[') && (s.is(']') || s.members(']', of)) }

func (s *skimmer) members(end byte, of func() bool) bool {
	for {
		if s.skip() == len(s.text) || !of() {
			return false
		}
		if !s.is(',') {
			return s.is(end)
		}
	}
}

// quoted skips a string.
func (s *skimmer) quoted() bool {
	if !s.is('"') {
		return false
	}
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.at++
			return true
		case '\\':
			s.at++
		}
		s.at++
	}
	return false
}

// value skips a value of any kind.
func (s *skimmer) value() bool {
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			if !s.quoted() {
				return false
			}
			if depth == 0 {
				return true
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return true // the bracket after a number or a word
			}
			if depth == 0 {
				s.at++
				return true
			}
		case ',':
			if depth == 0 {
				return true
			}
		}
		s.at++
	}
	return false
}
