// Package controls escapes control characters that JSON encoders leave unescaped.
package controls

import "fmt"

// Escape escapes U+007F to U+009F, which terminals may interpret, in the form of JSON and YAML, such as \u009b. Within
// quoted text the meaning does not change.
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
