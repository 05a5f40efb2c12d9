package config

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// Rewrite changes the text of a document such that it describes doc. What is the same in
// both stays byte for byte: order, comments, quotes, how lists are written; what is new
// stands in the canonical form beside what it belongs to. A comment goes with what it
// stands beside, or right above and as far indented. Where the text is no document, or is
// laid out in a way that this cannot change, the result is the canonical form in the same
// format, and not kept.
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

// rewrite is nil where it cannot be done.
func rewrite(text []byte, doc *Document) (out []byte) {
	// Besides errLayout: the positions that the library gives are wrong for some texts,
	// and lie outside of what they should be in.
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

// A rewriter collects what is to be changed in a text.
type rewriter struct {
	*layout
	edits []edit
}

// An edit puts other text in the place of [start, end).
type edit struct {
	start, end int
	text       string
}

func (r *rewriter) replace(start, end int, text string) {
	r.edits = append(r.edits, edit{start, end, text})
}

// within is the text of [start, end) with the edits that f makes there.
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

// A block is where a value in lines of its own is: up to which offset, and how far the
// lines of what has it are indented.
type block struct {
	to     int
	indent int
}

// sameValue reports whether two values are written the same; a list without items is as good
// as none.
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

// object changes the fields of an object.
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

// value changes a value that both have.
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

// keyOf is by what an item of a list is known.
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
	return scalar(v.Field(0)) // the first field of the others: id, nqn, nsid, group
}

// pair finds, for each wanted item, the present one of the same key, or -1.
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
