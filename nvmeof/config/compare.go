package config

import (
	"reflect"
	"slices"
	"strings"
)

// matched is an object of the old document, of the new one, or of both. It is nil for the document that lacks it.
type matched[T comparable] struct {
	key      string
	old, new T
}

// match pairs objects by their keys: those of the old document in their order, then the new ones. It skips objects
// at both ends that are identical, and have the same pointer, in both documents.
func match[T comparable](old, now []T, key func(T) string) (out []matched[T]) {
	for len(old) > 0 && len(now) > 0 {
		if old[0] != now[0] {
			k := key(old[0])
			if k != key(now[0]) {
				break
			}
			out = append(out, matched[T]{key: k, old: old[0], new: now[0]})
		}
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	return append(out, matchAll(old, now, key)...)
}

// matchAll is match for objects in any order, without that shortcut.
func matchAll[T comparable](old, now []T, key func(T) string) (out []matched[T]) {
	at := make(map[string]int, len(old))
	out = make([]matched[T], 0, len(old))
	for _, o := range old {
		at[key(o)] = len(out)
		out = append(out, matched[T]{key: key(o), old: o})
	}
	for _, n := range now {
		if i, ok := at[key(n)]; ok {
			out[i].new = n
			continue
		}
		out = append(out, matched[T]{key: key(n), new: n})
	}
	return out
}

// changes returns the fields that differ if both documents have the object.
func (m matched[T]) changes() []FieldChange {
	if isNil(m.old) || isNil(m.new) {
		return nil
	}
	return fieldChanges(m.old, m.new)
}

// same reports whether both documents have the object, with the same contents.
func (m matched[T]) same() bool {
	return m.old == m.new || !isNil(m.old) && !isNil(m.new) && reflect.DeepEqual(m.old, m.new)
}

// same reports whether two namespaces are equal in all fields.
func (n *Namespace) same(o *Namespace) bool {
	a, b := *n, *o
	a.File, a.Block, a.Memory, a.RBD = nil, nil, nil, nil
	b.File, b.Block, b.Memory, b.RBD = nil, nil, nil, nil
	return a == b && equal(n.File, o.File) && equal(n.Block, o.Block) && equal(n.Memory, o.Memory) && equal(n.RBD, o.RBD)
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// separate are the lists and fields that fieldChanges leaves out, since they are compared separately.
var separate = map[reflect.Type][]string{
	reflect.TypeFor[Document]():  {"listeners", "subsystems", "referrals", "erasing", "version"},
	reflect.TypeFor[Listener]():  {"ana-groups"},
	reflect.TypeFor[Subsystem](): {"listeners", "allow-any-host", "hosts", "namespaces"},
}

// fieldChanges compares the structures to which a and b point, which have the same type, field by field. A field
// that is not given counts as its default.
func fieldChanges(a, b any) []FieldChange {
	return compareFields(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), "", func(t reflect.Type, name string) bool {
		return !slices.Contains(separate[t], name)
	})
}

// visibilityChanges compares on which listeners a subsystem is, and whether it allows any host.
func visibilityChanges(a, b *Subsystem) []FieldChange {
	return compareFields(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), "", func(_ reflect.Type, name string) bool {
		return name == "listeners" || name == "allow-any-host"
	})
}

func compareFields(a, b reflect.Value, prefix string, which func(reflect.Type, string) bool) (out []FieldChange) {
	for _, f := range fieldsOf(a.Type()) {
		if !which(a.Type(), f.name) {
			continue
		}
		x, y, name := a.Field(f.index), b.Field(f.index), prefix+f.name
		both := x.Kind() == reflect.Pointer && !x.IsNil() && !y.IsNil()
		switch {
		case both:
			out = append(out, compareFields(x.Elem(), y.Elem(), name+".", which)...)
		case x.Kind() == reflect.Struct && !isScalar(x):
			out = append(out, compareFields(x, y, name+".", which)...)
		default:
			if from, to := textOf(x, f), textOf(y, f); from != to {
				out = append(out, FieldChange{name, from, to})
			}
		}
	}
	return out
}

// textOf returns the text of a field, or its default if it is not given.
func textOf(v reflect.Value, f fieldInfo) string {
	switch {
	case v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0:
		return f.def
	case isScalar(v):
		return scalar(v)
	case v.Kind() == reflect.Slice && isScalarType(v.Type().Elem()):
		return flow(v)
	}
	return strings.Join(strings.Fields(string(JSON(v.Interface()))), " ")
}
