package config

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// Rewrite changes the text of a document so that it describes doc. Everything that is the same in both is kept byte
// for byte: order, comments, quotes, the style of lists. New values are in canonical form, next to related ones. A
// comment belongs to what it is next to, or to what it is directly above with the same indentation.
//
// If the text is not a document, or has a layout that cannot be edited, Rewrite returns the canonical form in the
// same format, and kept is false.
func Rewrite(text []byte, doc *Document) (out []byte, kept bool) {
	if rest, marked := bytes.CutPrefix(text, []byte(byteOrderMark)); marked {
		out, kept = Rewrite(rest, doc)
		return append([]byte(byteOrderMark), out...), kept
	}
	if out = rewrite(text, doc); out != nil {
		return out, true
	}
	if isJSON(text) {
		return doc.JSON(), false
	}
	return doc.YAML(), false
}

// rewrite returns nil if the text cannot be edited.
func rewrite(text []byte, doc *Document) (out []byte) {
	// Besides errLayout, this catches wrong positions from the YAML library, which for some texts are out of range.
	defer func() {
		if recover() != nil {
			out = nil
		}
	}()
	if ends := bytes.Count(text, []byte("\r\n")); ends > 0 && ends == bytes.Count(text, []byte("\n")) {
		if out = rewrite(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), doc); out == nil {
			return nil
		}
		return bytes.ReplaceAll(out, []byte("\n"), []byte("\r\n"))
	}
	n, problem := parseText(text)
	if problem != nil {
		return nil
	}
	have := new(Document)
	d := &decoder{places: map[string]Position{}}
	d.decode(n, reflect.ValueOf(have).Elem(), "", fieldInfo{})
	if len(d.problems) > 0 {
		return nil
	}
	r := &rewriter{layout: newLayout(text)}
	out = r.within(0, len(text), func() {
		r.object(n, reflect.ValueOf(have).Elem(), reflect.ValueOf(doc).Elem(), block{to: len(text)})
	})
	got := new(Document)
	if ParsePart("", out, got) != nil || !bytes.Equal(got.JSON(), doc.JSON()) {
		return nil
	}
	return out
}

// A rewriter collects the edits of a text.
type rewriter struct {
	*layout
	edits []edit
}

// An edit replaces [start, end) by other text.
type edit struct {
	start, end int
	text       string
}

func (r *rewriter) replace(start, end int, text string) {
	r.edits = append(r.edits, edit{start, end, text})
}

// within returns the text of [start, end) with the edits that f makes there.
func (r *rewriter) within(start, end int, f func()) []byte {
	outer := r.edits
	r.edits = nil
	f()
	mine := r.edits
	r.edits = outer
	slices.SortStableFunc(mine, func(a, b edit) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	var out []byte
	for _, e := range mine {
		if e.start < start || e.end > end {
			panic(errLayout{})
		}
		out = append(append(out, r.text[start:e.start]...), e.text...)
		start = e.end
	}
	return append(out, r.text[start:end]...)
}

// A block is the place of a value on lines of its own: its end, and the indentation of the lines that contain it.
type block struct {
	to     int
	indent int
}

// sameValue reports whether two values have the same text. An empty list equals none.
func sameValue(x, y reflect.Value) bool {
	if x.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(x.Interface(), y.Interface())
}

// absentValue reports whether a field with that value is left out.
func absentValue(v reflect.Value) bool {
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// object edits the fields of an object.
func (r *rewriter) object(n *node, have, want reflect.Value, b block) {
	if n.kind != kindObject {
		panic(errLayout{})
	}
	if n.flow {
		r.flowObject(n, have, want)
		return
	}
	r.blockObject(n, have, want, b)
}

// value edits a value that both documents have.
func (r *rewriter) value(n *node, have, want reflect.Value, b block, inFlow bool) {
	for have.Kind() == reflect.Pointer {
		have, want = have.Elem(), want.Elem()
	}
	switch {
	case isScalar(have):
		start := r.offset(n.at)
		r.replace(start, r.end(start, inFlow), r.scalar(want))
	case have.Kind() == reflect.Struct:
		r.object(n, have, want, b)
	case n.flow:
		r.flowList(n, have, want)
	default:
		r.blockList(n, have, want, b)
	}
}

func (r *rewriter) scalar(v reflect.Value) string {
	if r.json {
		return strings.TrimSpace(string(JSON(v.Interface())))
	}
	return scalar(v)
}

// keyOf returns the key of an item of a list.
func keyOf(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if isScalar(v) {
		return scalar(v)
	}
	if x, ok := v.Addr().Interface().(*Referral); ok {
		return x.key()
	}
	return scalar(v.Field(0)) // id, nqn, nsid or group
}

// pair returns, for each wanted item, the index of the present item with the same key, or -1.
func pair(have, want reflect.Value) (from []int) {
	at := map[string]int{}
	for i := range have.Len() {
		at[keyOf(have.Index(i))] = i
	}
	used := map[int]bool{}
	for i := range want.Len() {
		j, ok := at[keyOf(want.Index(i))]
		switch {
		case !ok:
			j = -1
		case used[j]:
			panic(errLayout{})
		}
		used[j] = ok
		from = append(from, j)
	}
	if len(at) != have.Len() {
		panic(errLayout{})
	}
	return from
}
