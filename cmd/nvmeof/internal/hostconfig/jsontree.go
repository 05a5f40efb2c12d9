package hostconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

type valueKind uint8

const (
	nullValue valueKind = iota
	scalarValue
	listValue
	objectValue
)

// A value is a JSON value with the line on which it begins.
type value struct {
	kind    valueKind
	line    int
	text    string // of a scalar
	items   []*value
	members []member
}

type member struct {
	name  string
	value *value
}

// member returns the last member of that name, or nil.
func (v *value) member(name string) (found *value) {
	for i := range v.members {
		if v.members[i].name == name {
			found = v.members[i].value
		}
	}
	return found
}

// maxDepth is the maximum nesting of lists and objects.
const maxDepth = 16

type treeParser struct {
	text    []byte
	decoder *json.Decoder
	line    int // line number at offset counted
	counted int64
}

// parseTree parses one JSON value. On an error it also returns the line.
func parseTree(text []byte) (*value, int, error) {
	p := treeParser{text: text, decoder: json.NewDecoder(bytes.NewReader(text)), line: 1}
	p.decoder.UseNumber()
	v, err := p.value(0)
	if err == nil {
		if _, after := p.decoder.Token(); !errors.Is(after, io.EOF) {
			err = errors.New("data after the end of the document")
		}
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, p.lineAt(max(p.counted, min(syntax.Offset, int64(len(text))))), fmt.Errorf("not JSON: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, p.lineAt(int64(len(text))), errors.New("invalid JSON: it ends too early")
	case err != nil:
		return nil, p.lineAt(p.decoder.InputOffset()), err
	}
	return v, 0, nil
}

// lineAt returns the line of an offset. Offsets must not decrease between calls.
func (p *treeParser) lineAt(offset int64) int {
	if offset > p.counted {
		p.line += bytes.Count(p.text[p.counted:offset], []byte("\n"))
		p.counted = offset
	}
	return p.line
}

func (p *treeParser) value(depth int) (*value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d nested lists and objects", maxDepth)
	}
	token, err := p.decoder.Token()
	if err != nil {
		return nil, err
	}
	v := &value{line: p.lineAt(p.decoder.InputOffset())}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			v.kind = listValue
			return v, p.list(v, depth)
		}
		v.kind = objectValue
		return v, p.object(v, depth)
	case nil:
	default:
		v.kind, v.text = scalarValue, fmt.Sprint(token)
	}
	return v, nil
}

func (p *treeParser) list(v *value, depth int) error {
	for p.decoder.More() {
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
	_, err := p.decoder.Token()
	return err
}

func (p *treeParser) object(v *value, depth int) error {
	for p.decoder.More() {
		name, err := p.decoder.Token()
		if err != nil {
			return err
		}
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		v.members = append(v.members, member{fmt.Sprint(name), item})
	}
	_, err := p.decoder.Token()
	return err
}
