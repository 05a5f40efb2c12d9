package config

import (
	"fmt"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// repeated reports fields that an object has twice. nvmetcli would use the last one.
func (r *nvmetReader) repeated(n *node, where string) {
	seen := map[string]bool{}
	for _, f := range n.fields {
		at := join(where, f.name)
		if seen[f.name] {
			r.problems = append(r.problems, Problem{At: f.at, Path: at, Text: "is given twice", Fix: "keep one"})
		}
		seen[f.name] = true
		r.repeated(f.value, at)
	}
	for i, item := range n.items {
		r.repeated(item, fmt.Sprintf("%s[%d]", where, i))
	}
}

// object reports whether a node is an object; otherwise it records a problem.
func (r *nvmetReader) object(n *node, where string) bool {
	if n.kind != kindObject {
		r.fail(n, where, "", "is %v, want an object", n.kind)
	}
	return n.kind == kindObject
}

// flag reads a boolean, as 0 or 1 or as a JSON boolean. It returns on if v is nil.
func (r *nvmetReader) flag(v *node, where string, on bool) bool {
	if v == nil {
		return on
	}
	switch {
	case v.kind == kindList || v.kind == kindObject || v.kind == kindNull:
		r.fail(v, where, "", "is %v, want 0 or 1", v.kind)
	case v.text == "1", v.kind == kindBool && v.text == "true":
		return true
	case v.text != "0" && v.kind != kindBool:
		r.fail(v, where, "", "%s is neither 0 nor 1", nvmeof.Printable(v.text))
	}
	return false
}
