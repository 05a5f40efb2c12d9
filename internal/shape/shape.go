// Package shape detects whether another program's types of a record differ. Formats with field names, such as JSON and
// gob, decode a record with different fields without an error.
package shape

import (
	"crypto/sha256"
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// A Sum is a checksum of the types of a record.
type Sum [8]byte

// String returns the sum in hexadecimal.
func (s Sum) String() string { return fmt.Sprintf("%x", s[:]) }

// Of returns the sum for the type of v: its structure, with the names and tags of fields. Types with their own encoding
// count by their name.
func Of(v any) Sum {
	var b strings.Builder
	(&writer{to: &b, seen: map[reflect.Type]bool{}}).write(reflect.TypeOf(v))
	all := sha256.Sum256([]byte(b.String()))
	return Sum(all[:8])
}

type writer struct {
	to   *strings.Builder
	seen map[reflect.Type]bool // already described
}

var ownForms = []reflect.Type{reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler]()}

func (w *writer) write(t reflect.Type) {
	for _, own := range ownForms {
		if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
			fmt.Fprint(w.to, t.PkgPath(), ".", t.Name(), ";")
			return
		}
	}
	fmt.Fprint(w.to, t.Kind(), " ")
	switch t.Kind() {
	case reflect.Map:
		w.write(t.Key())
		w.write(t.Elem())
	case reflect.Array:
		fmt.Fprint(w.to, t.Len(), " ")
		w.write(t.Elem())
	case reflect.Pointer, reflect.Slice:
		w.write(t.Elem())
	case reflect.Struct:
		w.fields(t)
	}
}

// fields describes a struct, or only its name if it was described before.
func (w *writer) fields(t reflect.Type) {
	if t.Name() != "" {
		fmt.Fprint(w.to, t.Name(), " ")
	}
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	w.to.WriteByte('{')
	for f := range t.Fields() {
		fmt.Fprintf(w.to, "%s %q ", f.Name, f.Tag)
		w.write(f.Type)
	}
	w.to.WriteByte('}')
}
