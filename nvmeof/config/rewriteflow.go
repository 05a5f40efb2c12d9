package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A flowPart is a field or an item in brackets.
type flowPart struct{ start, end int }

// flowText returns a value on one line, or on several with an indentation if it is JSON and lines is set.
func (r *rewriter) flowText(v reflect.Value, indent int, lines bool) string {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if r.json {
		text := bytes.TrimSpace(JSON(v.Interface()))
		if lines {
			return strings.ReplaceAll(string(text), "\n", "\n"+strings.Repeat(" ", indent))
		}
		var b bytes.Buffer
		_ = json.Compact(&b, text) // our own JSON is valid
		return b.String()
	}
	var parts []string
	switch {
	case isScalar(v):
		return scalar(v)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			parts = append(parts, r.flowText(v.Index(i), 0, false))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	for _, f := range fieldsOf(v.Type()) {
		if x := v.Field(f.index); f.need || !absentValue(x) {
			parts = append(parts, f.name+": "+r.flowText(x, 0, false))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// A flowNode is a list or an object in brackets.
type flowNode struct {
	r           *rewriter
	open, close int // of the brackets
	parts       []flowPart
	indent      int  // indentation of its parts, if they have lines of their own
	lines       bool // whether they have
}

func (r *rewriter) flowNode(n *node) *flowNode {
	open := r.offset(n.open)
	f := &flowNode{r: r, open: open, close: r.end(open, true) - 1}
	starts := make([]int, 0, len(n.items)+len(n.fields))
	for _, item := range n.items {
		f.part(r.offset(item.begin()), item)
		starts = append(starts, item.begin().Line)
	}
	for _, x := range n.fields {
		f.part(r.offset(x.at), x.value)
		starts = append(starts, x.at.Line)
	}
	if len(starts) > 0 {
		f.lines = starts[0] > n.open.Line
	} else {
		f.lines = r.json && len(r.lines) > 2
	}
	_, outer := r.content(r.line(open))
	f.indent = outer + 2
	if f.lines && len(starts) > 0 {
		_, f.indent = r.content(starts[0] - 1)
	}
	return f
}

// begin returns the position of a value, including its bracket.
func (n *node) begin() Position {
	if n.flow {
		return n.open
	}
	return n.at
}

func (f *flowNode) part(start int, value *node) {
	f.parts = append(f.parts, flowPart{start, f.r.end(f.r.offset(value.begin()), true)})
}

// fill replaces the text between the brackets by parts. The spaces around them are kept.
func (f *flowNode) fill(parts []string) {
	r, between, before, after := f.r, ", ", "", ""
	if f.lines {
		line := "\n" + strings.Repeat(" ", f.indent)
		between, before, after = ","+line, line, line[:max(1, f.indent-1)]
	}
	if n := len(f.parts); n > 0 {
		before, after = string(r.text[f.open+1:f.parts[0].start]), string(r.text[f.parts[n-1].end:f.close])
	}
	r.replace(f.open+1, f.close, before+strings.Join(parts, between)+after)
}

func (r *rewriter) flowList(n *node, have, want reflect.Value) {
	f := r.flowNode(n)
	from := pair(have, want)
	change := func(old, at int) {
		if x, y := have.Index(old), want.Index(at); !sameValue(x, y) {
			r.value(n.items[old], x, y, block{}, true)
		}
	}
	if same := slices.EqualFunc(from, n.items, func(i int, x *node) bool { return i >= 0 && n.items[i] == x }); same {
		for i := range from {
			change(i, i)
		}
		return
	}
	var parts []string
	for at, old := range from {
		if old < 0 {
			parts = append(parts, r.flowText(want.Index(at), f.indent, f.lines))
			continue
		}
		parts = append(parts, string(r.within(f.parts[old].start, f.parts[old].end, func() { change(old, at) })))
	}
	f.fill(parts)
}

func (r *rewriter) flowObject(n *node, have, want reflect.Value) {
	f := r.flowNode(n)
	fields := fieldsOf(have.Type())
	info := func(name string) fieldInfo {
		return fields[slices.IndexFunc(fields, func(i fieldInfo) bool { return i.name == name })]
	}
	var parts []string
	order := []string{} // names of parts
	structure := false
	for i, x := range n.fields {
		t := info(x.name)
		a, b := have.Field(t.index), want.Field(t.index)
		if !sameValue(a, b) && absentValue(b) && !t.need {
			structure = true
			continue
		}
		parts = append(parts, string(r.within(f.parts[i].start, f.parts[i].end, func() {
			if !sameValue(a, b) {
				r.value(x.value, a, b, block{}, true)
			}
		})))
		order = append(order, x.name)
	}
	at := 0 // index at which a new field is inserted
	for _, t := range fields {
		if i := slices.Index(order, t.name); i >= 0 {
			at = i + 1
			continue
		}
		if b := want.Field(t.index); !absentValue(b) {
			name := t.name
			if r.json {
				name = strconv.Quote(name)
			}
			parts = slices.Insert(parts, at, name+": "+r.flowText(b, f.indent, f.lines))
			order = slices.Insert(order, at, t.name)
			structure, at = true, at+1
		}
	}
	if structure {
		f.fill(parts)
		return
	}
	for i := range parts {
		if p := f.parts[i]; parts[i] != string(r.text[p.start:p.end]) {
			r.replace(p.start, p.end, parts[i])
		}
	}
}
