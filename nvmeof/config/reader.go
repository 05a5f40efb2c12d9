package config

import (
	"bytes"
	"slices"
)

// A Reader reads documents that follow each other, of which most stays the same. It decodes the
// namespaces of a text in JSON that the text before did not have, and copies the others. The zero
// value is ready for use, by one goroutine at a time.
type Reader struct {
	known map[string]*Namespace // by their text
}

// Read is a document as [Parse] has it, which was not checked as a whole: see [Document.Check]. file
// is its name in problems. The error is of type [Problems].
func (r *Reader) Read(file string, text []byte) (*Document, error) {
	s := skimmer{text: text, known: r.known}
	doc := new(Document)
	if len(text) > MaxText || !isJSON(text) || !s.document() {
		_, err := parseInto(file, text, doc, false)
		return doc, err
	}
	if _, err := parseInto(file, s.rest(), doc, false); err != nil || len(doc.Subsystems) != len(s.subsystems) {
		doc = new(Document) // positions of problems are those in the whole text
		_, err := parseInto(file, text, doc, false)
		return doc, err
	}
	r.known = make(map[string]*Namespace, s.count)
	for i, entries := range s.subsystems {
		fresh := doc.Subsystems[i].Namespaces
		if len(entries) == 0 {
			continue
		}
		all := make([]*Namespace, 0, len(entries))
		for _, p := range entries {
			n := p.known
			if n == nil {
				n, fresh = fresh[0], fresh[1:]
			}
			r.known[string(p.text)] = n
			all = append(all, n.clone())
		}
		doc.Subsystems[i].Namespaces = all
	}
	return doc, nil
}

// An entry is where a text has a namespace.
type entry struct {
	text  []byte
	known *Namespace // nil: it has to be decoded
}

// A skimmer finds the namespaces of the subsystems of a document in JSON. It takes what is no JSON
// for something, too: what it leaves over is parsed.
type skimmer struct {
	text  []byte
	known map[string]*Namespace

	at         int
	copied     int    // up to where the text is in out, or left out
	out        []byte // without the namespaces that are known
	subsystems [][]entry
	count      int // of namespaces
}

// rest is the text without the namespaces that are known.
func (s *skimmer) rest() []byte { return append(s.out, s.text[s.copied:]...) }

// document reports whether the whole was skimmed.
func (s *skimmer) document() bool {
	return s.object(func(name []byte) bool {
		if string(name) != "subsystems" {
			return s.value()
		}
		return len(s.subsystems) == 0 && s.list(s.subsystem)
	})
}

func (s *skimmer) subsystem() bool {
	s.subsystems = append(s.subsystems, nil)
	entries := &s.subsystems[len(s.subsystems)-1]
	return s.object(func(name []byte) bool {
		if string(name) != "namespaces" {
			return s.value()
		}
		return *entries == nil && s.namespaces(entries)
	})
}

// namespaces leaves out those that are known, with the commas between.
func (s *skimmer) namespaces(entries *[]entry) bool {
	began, kept := s.skip(), 0
	if !s.list(func() bool {
		from := s.at
		if s.text[from] != '{' || !s.value() {
			return false
		}
		p := entry{text: s.text[from:s.at]}
		if p.known = s.known[string(p.text)]; p.known == nil {
			if kept++; kept == 1 {
				s.out = append(append(s.out, s.text[s.copied:began]...), '[')
			} else {
				s.out = append(s.out, ',')
			}
			s.out = append(s.out, p.text...)
			s.copied = s.at
		}
		*entries = append(*entries, p)
		return true
	}) {
		return false
	}
	s.count += len(*entries)
	if kept == 0 {
		s.out = append(append(s.out, s.text[s.copied:began]...), '[')
	}
	s.out = append(s.out, ']')
	s.copied = s.at
	return true
}

// skip is the offset of what follows after white space, where the skimmer then is.
func (s *skimmer) skip() int {
	for s.at < len(s.text) && bytes.IndexByte([]byte(" \t\r\n"), s.text[s.at]) >= 0 {
		s.at++
	}
	return s.at
}

// is takes a byte that follows after white space, if it is that.
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

// quoted takes a text in quotes.
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

// value takes a value of any kind.
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
				return true // of a number or a word, which it follows
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
