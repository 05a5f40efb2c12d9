package config

import (
	"reflect"
	"slices"
	"strings"
)

// indented indents each line.
func indented(text string, indent int) string {
	space := strings.Repeat(" ", indent)
	return space + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+space) + "\n"
}

// fieldText returns a field in canonical form.
func fieldText(name string, v reflect.Value, indent int) string {
	var w yamlWriter
	w.field(name, v, 0)
	return indented(w.String(), indent)
}

func itemText(v reflect.Value, indent int) string {
	var w yamlWriter
	list := reflect.MakeSlice(reflect.SliceOf(v.Type()), 0, 1)
	w.list(reflect.Append(list, v), 0)
	return indented(w.String(), indent)
}

// A blockField is a field of an object on lines of its own.
type blockField struct {
	start, end int // of its lines
	indent     int
}

// blockFields returns the lines of each field.
func (r *rewriter) blockFields(n *node, to int) (out []blockField) {
	for i, f := range n.fields {
		at := r.offset(f.at)
		start := r.lines[r.line(at)]
		next := to
		if i+1 < len(n.fields) {
			next = r.lines[n.fields[i+1].at.Line-1]
		}
		if next <= start { // two fields on one line
			panic(errLayout{})
		}
		out = append(out, blockField{start, r.last(start, next, at-start), at - start})
	}
	return out
}

func (r *rewriter) blockObject(n *node, have, want reflect.Value, b block) {
	places := r.blockFields(n, b.to)
	after := 0 // index of the field after which a new one is inserted
	for _, f := range fieldsOf(have.Type()) {
		at := slices.IndexFunc(n.fields, func(x field) bool { return x.name == f.name })
		x, y := have.Field(f.index), want.Field(f.index)
		switch {
		case sameValue(x, y):
		case at < 0 && absentValue(y):
		case at < 0:
			p := places[after]
			r.insert(p.end, fieldText(f.name, y, p.indent))
		case absentValue(y) && !f.need:
			r.removeField(n, places, at)
		default:
			r.value(n.fields[at].value, x, y, block{places[at].end, places[at].indent}, false)
		}
		if at >= 0 {
			after = at
		}
	}
}

// insert inserts lines.
func (r *rewriter) insert(at int, text string) {
	if at > 0 && r.text[at-1] != '\n' {
		text = "\n" + strings.TrimSuffix(text, "\n")
	}
	r.replace(at, at, text)
}

// removeField removes the lines of a field. A list with comments of its own is kept, without items.
func (r *rewriter) removeField(n *node, places []blockField, at int) {
	p, value := places[at], n.fields[at].value
	text, indent := r.content(r.line(p.start))
	if indent != p.indent || strings.HasPrefix(text, "- ") { // on the same line as the dash of an item
		panic(errLayout{})
	}
	if value.kind == kindList && !value.flow && len(value.items) > 0 {
		if rest := r.detached(value, p); strings.Contains(rest, "#") {
			colon := r.lineEnd(r.line(p.start))
			line := strings.TrimRight(string(r.text[p.start:colon]), " \r\n")
			if strings.HasSuffix(line, ":") {
				r.replace(p.start, p.end, line+" []\n"+rest)
				return
			}
		}
	}
	floor := 0
	if at > 0 {
		floor = places[at-1].end
	}
	r.replace(r.head(p.start, floor, p.indent), p.end, "")
}

// detached returns the lines of a list that belong to no item.
func (r *rewriter) detached(list *node, p blockField) string {
	items := r.blockItems(list, p.end)
	at, out := r.lineEnd(r.line(p.start)), ""
	for _, i := range items {
		out += string(r.text[at:i.head])
		at = i.end
	}
	return out + string(r.text[at:p.end])
}

// A blockItem is an item of a list on lines of its own, with the comments above it.
type blockItem struct {
	head, end int
	indent    int // of its dash
}

func (r *rewriter) blockItems(n *node, to int) (out []blockItem) {
	floor := 0
	for i, item := range n.items {
		line := item.at.Line - 1
		if item.flow {
			line = item.open.Line - 1
		}
		if line < 0 || line >= len(r.lines) {
			panic(errLayout{})
		}
		text, indent := r.content(line)
		next := to
		if i+1 < len(n.items) {
			next = r.lines[n.items[i+1].at.Line-1]
		}
		start := r.lines[line]
		if !strings.HasPrefix(text, "- ") || next <= start {
			panic(errLayout{})
		}
		end := r.last(start, next, indent)
		out = append(out, blockItem{r.head(start, floor, indent), end, indent})
		floor = end
	}
	return out
}

func (r *rewriter) blockList(n *node, have, want reflect.Value, b block) {
	items := r.blockItems(n, b.to)
	if len(items) == 0 {
		panic(errLayout{})
	}
	first, last := items[0], items[len(items)-1]
	from := pair(have, want)
	var out strings.Builder
	add := func(text string) {
		if s := out.String(); s != "" && !strings.HasSuffix(s, "\n") {
			out.WriteByte('\n')
		}
		out.WriteString(text)
	}
	for at, old := range from {
		if old < 0 {
			add(itemText(want.Index(at), first.indent))
			continue
		}
		add(r.item(n.items[old], items[old], have.Index(old), want.Index(at)))
		if old+1 < len(items) {
			add(r.gap(items, old))
		}
	}
	for i := range items[:len(items)-1] {
		if gap := r.gap(items, i); !slices.Contains(from, i) && strings.Contains(gap, "#") {
			add(gap)
		}
	}
	text := out.String()
	if last.end == len(r.text) && r.text[last.end-1] != '\n' {
		text = strings.TrimSuffix(text, "\n")
	}
	r.replace(first.head, last.end, text)
}

// gap returns the text between an item and the next one.
func (r *rewriter) gap(items []blockItem, i int) string {
	return string(r.text[items[i].end:items[i+1].head])
}

// item returns the text of an item that is kept, with its changes.
func (r *rewriter) item(n *node, p blockItem, have, want reflect.Value) string {
	return string(r.within(p.head, p.end, func() {
		if !sameValue(have, want) {
			r.value(n, have, want, block{p.end, p.indent}, false)
		}
	}))
}
