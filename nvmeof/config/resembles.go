package config

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

// nvmetcliFields are the fields of nvmetcli's file.
var nvmetcliFields = []string{"hosts", "ports", "subsystems"}

// Resembles reports whether a text looks like a document or nvmetcli's file, perhaps a faulty one, so that it may
// be overwritten by a document. Anything else is probably not the file that was meant, and could be the only copy
// of its contents.
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
	_ = json.Unmarshal(Schema(), &schema) // a test parses it
	_ = json.Unmarshal(schema["properties"], &fields)
	for name := range object {
		if _, ours := fields[name]; !ours && !slices.Contains(nvmetcliFields, name) {
			return false
		}
	}
	return true
}
