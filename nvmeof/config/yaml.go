package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML reads the part of YAML that has a counterpart in JSON.
func parseYAML(text []byte) (n *node, p *Problem) {
	if nested(text) {
		return nil, &Problem{Text: errDeep.Error()}
	}
	// The library panics on some texts that are not YAML (its issues tell of
	// several), which then is all that can be said about them.
	defer func() {
		if recover() != nil {
			n, p = nil, &Problem{Text: "not YAML", Fix: "compare it with the example"}
		}
	}()
	// It counts lines twice that end as Windows ends them.
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, yamlProblem(err)
	}
	docs := file.Docs
	for len(docs) > 0 && docs[len(docs)-1].Body == nil {
		docs = docs[:len(docs)-1]
	}
	switch len(docs) {
	case 0:
		return nil, &Problem{Text: "the document is empty", Fix: "it begins with version: 1"}
	case 1:
	default:
		return nil, &Problem{At: positionOf(docs[1].Body.GetToken()), Text: "a second document begins here", Fix: "keep one per file"}
	}
	return fromYAML(docs[0].Body, 0)
}

// nested reports whether a text is nested so deeply that it should not get into a
// recursive parser. It counts generously: brackets within text count too.
func nested(text []byte) bool {
	const limit = 10 * maxDepth
	depth, dashes := 0, 0
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '-', '?', ':', '&', '!', '*':
			dashes++ // "- - -" on one line nests
		case '\n':
			dashes = 0
		}
		if depth > limit || dashes > limit {
			return true
		}
	}
	return false
}

func yamlProblem(err error) *Problem {
	var e yaml.Error
	if !errors.As(err, &e) {
		return &Problem{Text: "not YAML: " + err.Error()}
	}
	return &Problem{At: positionOf(e.GetToken()), Text: "not YAML: " + strings.TrimSpace(e.GetMessage())}
}

func positionOf(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return Position{}
	}
	return Position{t.Position.Line, t.Position.Column}
}

func fromYAML(n ast.Node, depth int) (*node, *Problem) {
	out := &node{at: positionOf(n.GetToken())}
	if depth > maxDepth {
		return nil, &Problem{At: out.at, Text: errDeep.Error()}
	}
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind, out.text = kindNull, "null"
	case *ast.BoolNode:
		out.kind, out.text = kindBool, fmt.Sprint(n.Value)
	case *ast.IntegerNode:
		out.kind, out.text = kindNumber, n.Token.Value
	case *ast.FloatNode:
		out.kind, out.text = kindNumber, n.Token.Value
	case *ast.StringNode:
		out.kind, out.text = kindText, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = kindText, n.Value.Value
	case *ast.SequenceNode:
		return out, out.addItems(n, depth)
	case *ast.MappingNode:
		if out.flow = n.IsFlowStyle; out.flow {
			out.open = positionOf(n.Start)
		}
		return out, out.addFields(n.Values, depth)
	case *ast.MappingValueNode:
		return out, out.addFields([]*ast.MappingValueNode{n}, depth)
	default:
		return nil, &Problem{At: out.at, Text: "YAML of a kind that is not used here (" + strings.ToLower(n.Type().YAMLName()) + ")",
			Fix: "write the value out"}
	}
	return out, nil
}

func (out *node) addItems(n *ast.SequenceNode, depth int) *Problem {
	out.kind = kindList
	if out.flow = n.IsFlowStyle; out.flow {
		out.open = positionOf(n.Start)
	}
	for _, v := range n.Values {
		item, p := fromYAML(v, depth+1)
		if p != nil {
			return p
		}
		out.items = append(out.items, item)
	}
	return nil
}

func (out *node) addFields(values []*ast.MappingValueNode, depth int) *Problem {
	out.kind = kindObject
	if len(values) > 0 {
		out.at = positionOf(values[0].Key.GetToken())
	}
	for _, v := range values {
		key, p := fromYAML(v.Key, depth+1)
		if p != nil {
			return p
		}
		value, p := fromYAML(v.Value, depth+1)
		if p != nil {
			return p
		}
		if key.kind == kindList || key.kind == kindObject {
			return &Problem{At: key.at, Text: "the name of a field is " + key.kind.String(), Fix: "names are words"}
		}
		out.fields = append(out.fields, field{key.text, key.at, value})
	}
	return nil
}
