package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const emptyText = "the document is empty"

// parseYAML parses the part of YAML that has a counterpart in JSON.
func parseYAML(text []byte) (n *node, p *Problem) {
	if p := notUTF8(text, func(int) int { return 1 }); p != nil {
		return nil, p
	}
	if nested(text) {
		return nil, &Problem{Text: errDeep.Error()}
	}
	if separators(text) > maxSeparators {
		return nil, &Problem{Text: fmt.Sprintf("more than %d names and values", maxSeparators), Fix: "write it as JSON, which takes less memory to parse"}
	}
	// The library panics on some texts that are not YAML. Its issue tracker lists several.
	defer func() {
		if recover() != nil {
			n, p = nil, &Problem{Text: "not YAML", Fix: "compare it with the example"}
		}
	}()
	// The library counts a line that ends in \r\n twice.
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	tokens := lexer.Tokenize(string(text))
	if p := crowded(tokens); p != nil {
		return nil, p
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, yamlProblem(err)
	}
	docs := file.Docs
	for len(docs) > 0 && docs[len(docs)-1].Body == nil {
		docs = docs[:len(docs)-1]
	}
	switch len(docs) {
	case 0:
		return nil, &Problem{Text: emptyText}
	case 1:
	default:
		return nil, &Problem{At: positionOf(docs[1].Body.GetToken()), Text: "a second document begins here", Fix: "keep one per file"}
	}
	return fromYAML(docs[0].Body, 0)
}

// nested reports whether a text may be nested too deeply for a recursive parser. It overestimates: brackets in
// strings count too.
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
			dashes++ // "- - -" on one line is nested
		case '\n':
			dashes = 0
		}
		if depth > limit || dashes > limit {
			return true
		}
	}
	return false
}

// Limits of what the library may parse. It takes quadratic time and memory, and recurses, for the fields of one
// object, for documents, and for commas with nothing between them.
const (
	maxDocuments = 16
	// maxSeparators limits the rest, of which the library may take half a kilobyte and half a microsecond for each
	// byte. The limit is ten times what 10,000 namespaces need.
	maxSeparators = 1 << 20
)

// separators counts the characters that end a value, which is about the number of values.
func separators(text []byte) (n int) {
	for i, c := range text {
		switch c {
		case '\n', ',', '[', ']', '{', '}':
			n++
		case ':', '-', '?':
			if i+1 == len(text) || bytes.IndexByte([]byte(" \t\n\r,[]{}"), text[i+1]) >= 0 {
				n++
			}
		}
	}
	return n
}

// crowded reports a problem if the parser would take long.
func crowded(tokens token.Tokens) *Problem {
	fields := map[int]int{} // fields of the innermost block objects, by the column of their names
	var brackets []int      // number of fields within each open bracket; -1 for a list
	documents := 0
	for i, t := range tokens {
		switch t.Type {
		case token.DocumentHeaderType:
			if documents++; documents > maxDocuments {
				return &Problem{At: positionOf(t), Text: fmt.Sprintf("more than %d documents", maxDocuments), Fix: "keep one per file"}
			}
			clear(fields)
		case token.MappingStartType:
			brackets = append(brackets, 0)
		case token.SequenceStartType:
			brackets = append(brackets, -1)
		case token.MappingEndType, token.SequenceEndType:
			brackets = brackets[:max(len(brackets)-1, 0)]
		case token.CollectEntryType:
			if i > 0 && tokens[i-1].Type == token.CollectEntryType {
				return &Problem{At: positionOf(t), Text: "there is nothing between two commas", Fix: "remove one"}
			}
			if n := len(brackets); n > 0 && brackets[n-1] >= 0 {
				brackets[n-1]++
			}
		case token.SequenceEntryType:
			deeper(fields, t.Position.Column)
		case token.MappingKeyType, token.MappingValueType:
			name := t
			if t.Type == token.MappingValueType && i > 0 && tokens[i-1].Position.Line == t.Position.Line {
				name = tokens[i-1]
			}
			if len(brackets) == 0 {
				deeper(fields, name.Position.Column)
				fields[name.Position.Column]++
			} else if brackets[len(brackets)-1] >= 0 {
				brackets[len(brackets)-1]++
			}
			if fields[name.Position.Column] > maxFields {
				return tooManyFields(t)
			}
		}
		if n := len(brackets); n > 0 && brackets[n-1] > 2*maxFields { // a comma and a colon each
			return tooManyFields(t)
		}
	}
	return nil
}

// deeper removes the objects that end when something begins at a column.
func deeper(fields map[int]int, column int) {
	for c := range fields {
		if c > column {
			delete(fields, c)
		}
	}
}

func tooManyFields(t *token.Token) *Problem {
	return &Problem{At: positionOf(t), Text: errManyFields.Error(), Fix: "is it the right file?"}
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
		// The library does not say which escape became a character. So U+FFFD is not accepted from any.
		if replacement := string(utf8.RuneError); strings.Count(n.Value, replacement) > strings.Count(n.Token.Origin, replacement) {
			return nil, &Problem{At: out.at, Text: errNotUTF8.Error()}
		}
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
		return nil, &Problem{At: out.at, Text: "unsupported kind of YAML (" + strings.ToLower(n.Type().YAMLName()) + ")",
			Fix: "write the value in full"}
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
			return &Problem{At: key.at, Text: "the name of a field is " + key.kind.String(), Fix: "use a word"}
		}
		out.fields = append(out.fields, field{key.text, key.at, value})
	}
	return nil
}
