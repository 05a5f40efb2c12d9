package config

// A Reader reads and writes documents that follow each other, of which most stays the same. It decodes the
// namespaces of a text in JSON that the text before did not have, and encodes those that the document before did
// not have. The zero value is ready for use, by one goroutine at a time.
//
// Documents that follow each other have the same namespaces where their text is the same, as a
// [Document.Successor] has: they must not be changed.
type Reader struct {
	text    []byte  // that was read or written last
	entries []entry // of it, in its order
}

// An entry is where a text has a namespace.
type entry struct {
	from, to  int
	namespace *Namespace // nil: it has to be decoded
}

// Read is a document as [Parse] has it, which was not checked as a whole: see [Document.Check]. The text must not
// be changed afterwards. file is its name in problems. The error is of type [Problems].
func (r *Reader) Read(file string, text []byte) (*Document, error) {
	s := skimmer{text: text, before: seeker[string]{text: r.text, entries: r.entries}, entries: make([]entry, 0, len(r.entries)+1)}
	doc := new(Document)
	if len(text) > MaxText || !isJSON(text) || !s.document() {
		_, err := parseInto(file, text, doc)
		return doc, err
	}
	if _, err := parseInto(file, s.rest(), doc); err != nil || len(doc.Subsystems) != len(s.subsystems) {
		doc = new(Document) // positions of problems are those in the whole text
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

// namespacesOf are those of entries, of which some were decoded now.
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

// Write is the text of a document, in JSON with a line for each namespace. It must not be changed, and nor must
// the document's namespaces.
func (r *Reader) Write(doc *Document) []byte {
	w := writer{before: seeker[*Namespace]{text: r.text, entries: r.entries}, out: make([]byte, 0, len(r.text)+spare), entries: make([]entry, 0, len(r.entries)+1)}
	w.document(doc)
	r.text, r.entries = w.out, w.entries
	return w.out
}

// spare is for what a text has more than the one before.
const spare = 4 << 10
