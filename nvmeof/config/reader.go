package config

// A Reader reads and writes successive versions of a document. It decodes only those namespaces of a JSON text that
// the previous text did not have, and encodes only those that the previous document did not have. The zero value is
// ready for use, by one goroutine at a time.
//
// Successive documents share the namespaces whose text is equal, like a [Document.Successor]. They must not be
// changed.
type Reader struct {
	text    []byte  // text that was last read or written
	entries []entry // its namespaces, in order
}

// An entry is the place of a namespace in a text.
type entry struct {
	from, to  int
	namespace *Namespace // nil: not decoded yet
}

// Read parses a document like [Parse], but does not check it as a whole: see [Document.Check]. The text must not be
// changed afterwards. file is its name in problems. The error is of type [Problems].
func (r *Reader) Read(file string, text []byte) (*Document, error) {
	s := skimmer{text: text, before: seeker[string]{text: r.text, entries: r.entries}, entries: make([]entry, 0, len(r.entries)+1)}
	doc := new(Document)
	if len(text) > MaxText || !isJSON(text) || !s.document() {
		_, err := parseInto(file, text, doc)
		return doc, err
	}
	if _, err := parseInto(file, s.rest(), doc); err != nil || len(doc.Subsystems) != len(s.subsystems) {
		doc = new(Document) // parse all of it, so that positions of problems refer to the whole text
		_, err := parseInto(file, text, doc)
		return doc, err
	}
	for i, from := range s.subsystems {
		to := len(s.entries)
		if i+1 < len(s.subsystems) {
			to = s.subsystems[i+1]
		}
		if from < to {
			doc.Subsystems[i].Namespaces = namespacesOf(s.entries[from:to], doc.Subsystems[i].Namespaces)
		}
	}
	r.text, r.entries = text, s.entries
	return doc, nil
}

// namespacesOf returns the namespaces of entries. Those that are nil are taken from decoded, in order.
func namespacesOf(entries []entry, decoded []*Namespace) []*Namespace {
	all := make([]*Namespace, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.namespace == nil {
			e.namespace, decoded = decoded[0], decoded[1:]
		}
		all[i] = e.namespace
	}
	return all
}

// Write returns the text of a document: JSON with a line for each namespace. The text must not be changed, nor the
// document's namespaces.
func (r *Reader) Write(doc *Document) []byte {
	w := writer{before: seeker[*Namespace]{text: r.text, entries: r.entries}, out: make([]byte, 0, len(r.text)+spare), entries: make([]entry, 0, len(r.entries)+1)}
	w.document(doc)
	r.text, r.entries = w.out, w.entries
	return w.out
}

// spare is how many bytes a text may be longer than the previous one without a new allocation.
const spare = 4 << 10
