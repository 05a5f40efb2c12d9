// Package shape tells whether the types of a record are those that another program has: formats that
// name fields, as JSON and gob do, read a record whose fields are others without an error.
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

// String is the sum in hexadecimal.
func (s Sum) String() string { return fmt.Sprintf("%x", s[:]) }

// Of returns the sum for the type of v: what it is made of, with the names of fields and their tags.
// Types that encode themselves count by their name.
func Of(v any) Sum {
	var b strings.Builder
	(&writer{to: &b, seen: map[reflect.Type]bool{}}).write(reflect.TypeOf(v))
	all := sha256.Sum256([]byte(b.String()))
	return Sum(all[:8])
}

type writer struct {
	to   *strings.Builder
	seen map[reflect.Type]bool // that were described
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

// fields describes a struct, and one that was described by its name.
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
