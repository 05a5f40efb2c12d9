package nvmecli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// A member is a key of a JSON object with its value: a string, a number, an object, or an array of objects or strings.
// The order of members is kept.
type member struct {
	key   string
	value any
}

type object []member

// number is an integer of any size, in decimal.
type number string

// verbatim is a value in JSON, with its indentation.
type verbatim string

func integer[T ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int | ~int64](v T) number {
	return number(fmt.Sprintf("%d", v))
}

// writeJSON prints a document in json-c's pretty format: two spaces of indentation, none after a colon.
func writeJSON(w io.Writer, v any) error {
	var b strings.Builder
	appendJSON(&b, v, 0)
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

func appendJSON(b *strings.Builder, v any, depth int) {
	switch v := v.(type) {
	case string:
		appendString(b, v)
	case number:
		b.WriteString(string(v))
	case verbatim:
		b.WriteString(string(v))
	case object:
		appendList(b, "{}", len(v), depth, func(i int) {
			appendString(b, v[i].key)
			b.WriteByte(':')
			appendJSON(b, v[i].value, depth+1)
		})
	case []object:
		appendList(b, "[]", len(v), depth, func(i int) { appendJSON(b, v[i], depth+1) })
	case []string:
		appendList(b, "[]", len(v), depth, func(i int) { appendString(b, v[i]) })
	default:
		panic(fmt.Sprintf("nvmecli: no JSON for %T", v))
	}
}

func appendList(b *strings.Builder, brackets string, n, depth int, element func(i int)) {
	b.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		indent(b, depth+1)
		element(i)
	}
	if n > 0 {
		indent(b, depth)
	}
	b.WriteByte(brackets[1])
}

func indent(b *strings.Builder, depth int) {
	b.WriteByte('\n')
	for range depth {
		b.WriteString("  ")
	}
}

var shortEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

// appendString quotes s. Unprintable characters are escaped.
func appendString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s { // invalid UTF-8 becomes U+FFFD
		e, short := shortEscapes[r]
		switch {
		case short:
			b.WriteString(e)
		case r > 0xffff && !unicode.IsPrint(r):
			first, second := utf16.EncodeRune(r)
			fmt.Fprintf(b, `\u%04x\u%04x`, first, second)
		case !unicode.IsPrint(r) || r == utf8.RuneError:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
