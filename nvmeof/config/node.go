package config

import (
	"bytes"
	"fmt"
	"strings"
)

// kind is what a piece of text is.
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

// A node is a value as it stands in a file, YAML or JSON.
type node struct {
	kind   kind
	at     Position
	text   string  // of a scalar, without quotes
	items  []*node // of a list
	fields []field // of an object, in the order of the file

	flow bool     // a list or an object in brackets, as JSON has them
	open Position // of the bracket
}

// A field is a name and its value.
type field struct {
	name  string
	at    Position
	value *node
}

// MaxText is how many bytes a document, or a file to be imported, may have.
const MaxText = 16 << 20

// maxDepth is how many lists and objects may be within each other.
const maxDepth = 32

// maxFields is how many fields an object may have: what is described here has few.
const maxFields = 256

var errManyFields = fmt.Errorf("an object has more than %d fields", maxFields)

// maxValues is how many values a text in JSON may have, of which each takes a hundred times the memory of the shortest. It is
// more than three times what 10,000 namespaces have with all their fields.
const maxValues = 1 << 20

var errCrowded = fmt.Errorf("more than %d values", maxValues)

var errDeep = fmt.Errorf("more than %d nested lists and objects", maxDepth)

// byteOrderMark is what some editors begin a file in UTF-8 with.
const byteOrderMark = "\ufeff"

// parseText reads a tree from YAML, or from JSON if the first thing is a brace.
func parseText(text []byte) (*node, *Problem) {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark))
	if len(text) > MaxText {
		return nil, &Problem{Text: fmt.Sprintf("%d bytes are too long for a configuration", len(text)), Fix: "is it the right file?"}
	}
	if isJSON(text) {
		return parseJSON(text)
	}
	return parseYAML(text)
}

func isJSON(text []byte) bool {
	return strings.HasPrefix(strings.TrimLeft(string(text[:min(len(text), 4096)]), " \t\r\n"), "{")
}
