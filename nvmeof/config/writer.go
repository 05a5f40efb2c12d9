package config

import (
	"bytes"
	"encoding/json"
)

// A writer makes the text of a document.
type writer struct {
	before  seeker[*Namespace] // the previous text
	out     []byte
	entries []entry
}

func (w *writer) document(doc *Document) {
	bare := *doc
	bare.Subsystems = nil
	w.value(&bare)
	if len(doc.Subsystems) == 0 {
		return
	}
	w.reopen(`,"subsystems":[`)
	for i, s := range doc.Subsystems {
		w.comma(i)
		w.subsystem(s)
	}
	w.out = append(w.out, "]}\n"...)
}

func (w *writer) subsystem(s *Subsystem) {
	bare := *s
	bare.Namespaces = nil
	w.value(&bare)
	if len(s.Namespaces) == 0 {
		return
	}
	w.reopen(`,"namespaces":[`)
	for i, n := range s.Namespaces {
		w.comma(i)
		from := len(w.out)
		if text := w.known(n); text != nil {
			w.out = append(w.out, text...)
		} else {
			w.value(n)
		}
		w.entries = append(w.entries, entry{from, len(w.out), n})
	}
	w.out = append(w.out, "]}"...)
}

// known returns the text of a namespace that the previous document has too, or nil.
func (w *writer) known(n *Namespace) []byte {
	textOf := func(e *entry) []byte { return w.before.text[e.from:e.to] }
	for i, e := range w.before.near() {
		if e.namespace != n {
			continue
		}
		if known := w.before.take(i); known != nil {
			return textOf(known)
		}
	}
	if e := w.before.anywhere(n, func(e *entry) *Namespace { return e.namespace }); e != nil {
		return textOf(e)
	}
	return nil
}

func (w *writer) comma(i int) {
	if i > 0 {
		w.out = append(w.out, ",\n"...)
	}
}

// reopen removes the closing brace of an object, to add another field.
func (w *writer) reopen(with string) {
	w.out = append(w.out[:len(w.out)-1], with...)
}

func (w *writer) value(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("config: " + err.Error()) // our own types can be encoded
	}
	w.out = append(w.out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
