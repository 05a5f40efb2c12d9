// Package controls writes control characters that encoders of JSON leave as they are.
package controls

import "fmt"

// Escape has U+007F to U+009F, which a terminal may obey, written as in JSON and YAML, as \u009b. Within text in quotes that
// is the same text.
func Escape(text []byte) []byte {
	var out []byte
	from := 0
	for i, c := range text {
		r, n := rune(c), 1
		if c == 0xc2 && i+1 < len(text) && text[i+1]&0xe0 == 0x80 { // U+0080 to U+009F
			r, n = rune(text[i+1]), 2
		}
		if c == 0x7f || n == 2 {
			out = fmt.Appendf(append(out, text[from:i]...), "\\u%04x", r)
			from = i + n
		}
	}
	if from == 0 {
		return text
	}
	return append(out, text[from:]...)
}
