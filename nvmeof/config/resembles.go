package config

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// nvmetcliFields are those of the file in which nvmetcli keeps the kernel's target.
var nvmetcliFields = []string{"hosts", "ports", "subsystems"}

// Resembles reports whether a text is a document, or nvmetcli's file, with whatever mistakes: who writes one may
// replace it. What is none is another file than was meant, and its content may be all that there is of it.
func Resembles(text []byte) bool {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return true
	case !utf8.Valid(text), bytes.IndexByte(text, 0) >= 0:
		return false
	case text[0] != '{':
		return bytes.HasPrefix(text, []byte("version:")) || bytes.Contains(text, []byte("\nversion:"))
	}
	var object, schema map[string]json.RawMessage
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil {
		return false
	}
	_ = json.Unmarshal(Schema(), &schema) // which a test parses
	_ = json.Unmarshal(schema["properties"], &fields)
	for name := range object {
		if _, ours := fields[name]; !ours && !slices.Contains(nvmetcliFields, name) {
			return false
		}
	}
	return true
}
