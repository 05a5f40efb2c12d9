package nvmecli

import (
	"fmt"
	"io"
	"strings"
)

// An Output is where the result of a command is printed, and in which format.
type Output struct {
	W      io.Writer
	Device string // name of the controller: nvme0
	JSON   bool   // -o json
	Human  bool   // -H
}

// text writes the text that f builds in one call.
func (o Output) text(f func(b *strings.Builder)) error {
	var b strings.Builder
	f(&b)
	_, err := io.WriteString(o.W, b.String())
	return err
}

func (o Output) json(v any) error { return writeJSON(o.W, v) }

// hexed formats like C's %#x: zero has no prefix.
func hexed[T ~uint8 | ~uint16 | ~uint32 | ~uint64](v T) string {
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%#x", uint64(v))
}

// padded formats like C's %#0*x, whose width includes the prefix; zero has no prefix.
func padded[T ~uint8 | ~uint16 | ~uint32 | ~uint64](v T, width int) string {
	if v == 0 {
		return strings.Repeat("0", width)
	}
	return fmt.Sprintf("0x%0*x", width-2, uint64(v))
}

// value32 formats a dword as nvme-cli does: ten characters, or eight zeroes.
func value32(v uint32) string {
	if v == 0 {
		return "00000000"
	}
	return padded(v, 10)
}

// feature8 formats a one-byte number as nvme-cli does: four characters, or two zeroes.
func feature8[T ~uint8](v T) string {
	if v == 0 {
		return "00"
	}
	return padded(v, 4)
}

// choose returns yes or no.
func choose(on bool, yes, no string) string {
	if on {
		return yes
	}
	return no
}

// at returns the text of a code, or other if names has none.
func at[T ~uint8 | ~uint32 | ~int](names []string, i T, other string) string {
	if uint64(i) < uint64(len(names)) {
		return names[i]
	}
	return other
}

// either prints text or, with -o json, JSON.
func (o Output) either(text func(b *strings.Builder), json func() any) error {
	if o.JSON {
		return o.json(json())
	}
	return o.text(text)
}
