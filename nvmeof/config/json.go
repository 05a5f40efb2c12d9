package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A jsonReader parses JSON into a tree of nodes.
type jsonReader struct {
	text    []byte
	decoder *json.Decoder
	depth   int
	values  int
	seen    int // offset up to which lines are counted
	lines   int
	line    int // offset of the start of the current line
}

// errAt is an error at an offset.
type errAt struct {
	error
	offset int64
}

func parseJSON(text []byte) (*node, *Problem) {
	r := jsonReader{text: text, decoder: json.NewDecoder(bytes.NewReader(text))}
	if p := notUTF8(text, func(n int) int { return n }); p != nil {
		return nil, p
	}
	if at := crowdedAt(text); at >= 0 {
		return nil, r.problem(errAt{errCrowded, int64(at)})
	}
	r.decoder.UseNumber()
	n, err := r.value()
	if err == nil {
		if _, more := r.decoder.Token(); more != io.EOF {
			err = r.fail(errors.New("data after the end of the document"))
		}
	}
	if err != nil {
		return nil, r.problem(err)
	}
	return n, nil
}

// crowdedAt returns the offset at which text has more commas than maxValues allows, or -1. A value precedes each
// comma. Most texts with too many values are thus refused before a tree is made; others are counted while they are
// parsed.
func crowdedAt(text []byte) int {
	if bytes.Count(text, []byte(",")) < maxValues {
		return -1
	}
	commas, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++
		case ',':
			if quoted {
				continue
			}
			if commas++; commas == maxValues {
				return i
			}
		}
	}
	return -1
}

func (r *jsonReader) problem(err error) *Problem {
	offset := int64(len(r.text))
	var at errAt
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &at):
		offset, err = at.offset, at.error
	case errors.As(err, &syntax):
		// The offset may or may not include the byte at fault.
		offset = max(syntax.Offset-1, r.next())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the document ends too early: a brace or bracket is not closed")
	}
	if errors.Is(err, errNotUTF8) {
		return &Problem{At: r.position(offset), Text: err.Error()}
	}
	return &Problem{At: r.position(offset), Text: "not JSON: " + strings.TrimPrefix(err.Error(), "json: ")}
}

func (r *jsonReader) fail(err error) error { return errAt{err, r.next()} }

// next returns the offset of the next token.
func (r *jsonReader) next() int64 {
	at := r.decoder.InputOffset()
	for at < int64(len(r.text)) && bytes.IndexByte([]byte(" \t\r\n,:"), r.text[at]) >= 0 {
		at++
	}
	return at
}

// position returns the position of an offset. It is fast if offsets do not decrease from call to call, which they
// do only for errors.
func (r *jsonReader) position(offset int64) Position {
	to := min(int(offset), len(r.text))
	if to < r.seen {
		r.seen, r.lines, r.line = 0, 0, 0
	}
	part := r.text[r.seen:to]
	if n := bytes.Count(part, []byte("\n")); n > 0 {
		r.lines += n
		r.line = r.seen + bytes.LastIndexByte(part, '\n') + 1
	}
	r.seen = to
	return Position{1 + r.lines, 1 + to - r.line}
}

func (r *jsonReader) value() (*node, error) {
	at := r.next()
	if r.values++; r.values > maxValues {
		return nil, errAt{errCrowded, at}
	}
	n := &node{at: r.position(at)}
	t, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		n.kind, n.text = kindNull, "null"
	case bool:
		n.kind, n.text = kindBool, fmt.Sprint(t)
	case json.Number:
		n.kind, n.text = kindNumber, t.String()
	case string:
		n.kind, n.text = kindText, t
		err = r.checkText(t, at)
	case json.Delim:
		if r.depth++; r.depth > maxDepth {
			return nil, errAt{errDeep, at}
		}
		err = r.inside(n, t)
		r.depth--
	}
	return n, err
}

// checkText refuses a string, which was just read, with half of a surrogate pair.
func (r *jsonReader) checkText(t string, at int64) error {
	if strings.ContainsRune(t, utf8.RuneError) && halfPair(string(r.text[at:r.decoder.InputOffset()])) {
		return errAt{errNotUTF8, at}
	}
	return nil
}

// inside reads a list or an object to its end.
func (r *jsonReader) inside(n *node, open json.Delim) error {
	n.kind, n.flow, n.open = kindList, true, n.at
	if open == '{' {
		n.kind = kindObject
	}
	for r.decoder.More() {
		at := r.next()
		f := field{at: r.position(at)}
		if n.kind == kindObject {
			if len(n.fields) == maxFields {
				return r.fail(errManyFields)
			}
			t, err := r.decoder.Token()
			if err != nil {
				return err
			}
			f.name, _ = t.(string)
			if err := r.checkText(f.name, at); err != nil {
				return err
			}
		}
		v, err := r.value()
		if err != nil {
			return err
		}
		if n.kind == kindObject {
			f.value = v
			n.fields = append(n.fields, f)
		} else {
			n.items = append(n.items, v)
		}
	}
	_, err := r.decoder.Token()
	return err
}
