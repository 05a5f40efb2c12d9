package nvmecli

import (
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A field is one line of text, and one member of an object.
type field struct {
	name  string
	text  string
	value any // in JSON; nil: omitted
	bits  uint64
}

// dec returns a field of a number printed in decimal.
func dec[T ~uint8 | ~uint16 | ~uint32 | ~uint64](name string, v T) field {
	return field{name, fmt.Sprint(uint64(v)), integer(v), uint64(v)}
}

// hexField returns a field of a number printed in hexadecimal in text, except that zero is "0".
func hexField[T ~uint8 | ~uint16 | ~uint32 | ~uint64](name string, v T) field {
	f := dec(name, v)
	if v != 0 {
		f.text = fmt.Sprintf("%#x", uint64(v))
	}
	return f
}

func wide(name string, v capsule.Uint128) field {
	n := new(big.Int).SetUint64(v.Hi)
	n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(v.Lo))
	return field{name, n.String(), number(n.String()), v.Lo}
}

func text(name, s string) field { return field{name, s, s, 0} }

// ascii returns a field of fixed-size text, printed with its padding.
func ascii(name string, b []byte) field {
	s, _, _ := strings.Cut(string(b), "\x00")
	return text(name, harmless(s))
}

// clean returns text from the controller up to its NUL, without trailing spaces.
func clean(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return harmless(strings.TrimRight(s, " "))
}

// harmless escapes in text from the controller the characters that a terminal would obey.
func harmless(s string) string { return nvmeof.Visible(s) }

// writeFields prints lines with names padded to width. A name that ends in a tab is not padded.
func writeFields(w io.Writer, width int, fields []field) {
	for _, f := range fields {
		if strings.HasSuffix(f.name, "\t") {
			fmt.Fprintf(w, "%s: %s\n", f.name, f.text)
			continue
		}
		fmt.Fprintf(w, "%-*s: %s\n", width, f.name, f.text)
	}
}

func members(fields []field) object {
	var o object
	for _, f := range fields {
		if f.value != nil {
			o = append(o, member{strings.TrimSpace(f.name), f.value})
		}
	}
	return o
}
