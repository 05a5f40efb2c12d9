package config

import (
	"bytes"
	"fmt"
	"strings"
)

// A kind is the type of a node.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindText
	kindList
	kindObject
)

var kindNames = [...]string{"nothing (null)", "true or false", "a number", "text", "a list", "an object"}

func (k kind) String() string { return kindNames[k] }

// A node is a value of a YAML or JSON file.
type node struct {
	kind   kind
	at     Position
	text   string  // of a scalar, without quotes
	items  []*node // of a list
	fields []field // of an object, in the order of the file

	flow bool     // a list or an object in brackets, as in JSON
	open Position // position of the bracket
}

// A field is a name and its value.
type field struct {
	name  string
	at    Position
	value *node
}

// MaxText is the maximum size of a document, or of a file to be imported, in bytes.
const MaxText = 16 << 20

// maxDepth is the maximum depth of nested lists and objects.
const maxDepth = 32

// maxFields is the maximum number of fields of an object.
const maxFields = 256

var errManyFields = fmt.Errorf("an object has more than %d fields", maxFields)

// maxValues is the maximum number of values of a JSON text. The node of a value takes a hundred times the memory of
// the shortest text. The limit is more than three times what 10,000 namespaces with all their fields need.
const maxValues = 1 << 20

var errCrowded = fmt.Errorf("more than %d values", maxValues)

var errDeep = fmt.Errorf("more than %d nested lists and objects", maxDepth)

// byteOrderMark is at the start of UTF-8 files of some editors.
const byteOrderMark = "\ufeff"

// parseText parses YAML, or JSON if the first character is a brace.
func parseText(text []byte) (*node, *Problem) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if len(text) > MaxText {
		return nil, &Problem{Text: fmt.Sprintf("%d bytes are too many for a configuration", len(text)), Fix: "is it the right file?"}
	}
	if isJSON(text) {
		return parseJSON(text)
	}
	return parseYAML(text)
}

func isJSON(text []byte) bool {
	return strings.HasPrefix(strings.TrimLeft(string(text[:min(len(text), 4096)]), " \t\r\n"), "{")
}
