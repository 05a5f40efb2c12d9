package config

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
)

// Parse parses and checks a document, YAML or JSON. file is its name in problems. The error is of type [Problems].
// Warnings are about settings that work but may not be intended.
func Parse(file string, text []byte) (doc *Document, warnings Problems, err error) {
	doc = new(Document)
	d, err := parseInto(file, text, doc)
	if err != nil {
		return nil, nil, err
	}
	found, doubts := doc.review()
	if len(found) > 0 {
		return nil, nil, d.locate(file, found)
	}
	return doc, d.locate(file, append(doubts, doc.DoubtNames(nil)...)), nil
}

// EndsInLine reports whether a document may have been cut short: its last line has no end, and it is not JSON,
// where a closing bracket would be missing. A YAML document that was cut short is still valid, with less in it.
func EndsInLine(text []byte) bool {
	whole := bytes.TrimSpace(bytes.TrimPrefix(text, []byte(byteOrderMark)))
	return len(whole) > 0 && whole[0] != '{' && text[len(text)-1] != '\n'
}

// ParsePart parses a part of a document, like a [Host] or a [Namespace], into the structure to which to points.
func ParsePart(file string, text []byte, to any) error {
	_, err := parseInto(file, text, to)
	return err
}

// Merge parses some fields of a part of a document into to, which keeps its other fields. A field that is null gets
// its default.
func Merge(file string, text []byte, to any) error {
	p, err := ParsePatch(file, text)
	if err != nil {
		return err
	}
	return p.Apply(to)
}

// A Patch has some fields of a part of a document. It may be applied by several goroutines at once.
type Patch struct {
	file string
	root *node
}

// ParsePatch parses a patch, which takes most of the time of [Merge]. Only [Patch.Apply] checks whether the object
// has such fields.
func ParsePatch(file string, text []byte) (*Patch, error) {
	n, p := parseText(text)
	if p != nil {
		p.File = file
		return nil, Problems{*p}
	}
	return &Patch{file, n}, nil
}

// Apply merges the patch into to; see [Merge].
func (p *Patch) Apply(to any) error {
	_, err := decodeInto(p.file, p.root, to, true)
	return err
}

// Clone returns a deep copy.
func (doc *Document) Clone() *Document {
	return deepCopy(reflect.ValueOf(doc)).Interface().(*Document)
}

// Successor returns a copy from which the next document can be made. It shares its namespaces with doc. They must
// not be changed as long as either document is used; to change one, replace it by a new one.
func (doc *Document) Successor() *Document {
	bare := *doc
	bare.Subsystems = slices.Clone(doc.Subsystems)
	for i, s := range bare.Subsystems {
		if s != nil {
			b := *s
			b.Namespaces = nil
			bare.Subsystems[i] = &b
		}
	}
	next := bare.Clone()
	for i, s := range doc.Subsystems {
		if s != nil {
			next.Subsystems[i].Namespaces = slices.Clone(s.Namespaces)
		}
	}
	return next
}

// Clone returns a deep copy.
func (n *Namespace) Clone() *Namespace {
	c := *n
	c.File, c.Block, c.Memory, c.RBD = copied(n.File), copied(n.Block), copied(n.Memory), copied(n.RBD)
	return &c
}

// copied returns a copy of a structure without pointers, or nil.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// deepCopy copies everything that is reachable by pointers and slices of the types of this package.
func deepCopy(v reflect.Value) reflect.Value {
	if n, ok := v.Interface().(*Namespace); ok && n != nil { // faster, since there can be thousands
		return reflect.ValueOf(n.Clone())
	}
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(deepCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deepCopy(v.Index(i)))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if k := v.Field(i).Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Struct && !isScalar(v.Field(i)) {
				out.Field(i).Set(deepCopy(v.Field(i)))
			}
		}
	}
	return out
}

func parseInto(file string, text []byte, to any) (*decoder, error) {
	_, whole := to.(*Document)
	n, p := parseText(text)
	if p != nil {
		p.File = file
		if whole && p.Text == emptyText {
			p.Fix = "begin it with version: 1"
		}
		return nil, Problems{*p}
	}
	d, err := decodeInto(file, n, to, false)
	if err != nil && whole {
		if p := ofOthers(n); p != nil {
			p.File = file
			return nil, Problems{*p}
		}
	}
	return d, err
}

func decodeInto(file string, n *node, to any, merge bool) (*decoder, error) {
	d := &decoder{places: map[string]Position{}, merge: merge}
	d.decode(n, reflect.ValueOf(to).Elem(), "", fieldInfo{})
	return d, d.locate(file, d.problems).err()
}

// locate adds the positions of problems, and sorts them by position.
func (d *decoder) locate(file string, problems Problems) Problems {
	for i := range problems {
		p := &problems[i]
		p.File = file
		if at, ok := d.places[p.Path]; ok && p.At == (Position{}) {
			p.At = at
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	return problems
}
