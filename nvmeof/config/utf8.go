package config

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Readers put U+FFFD in the place of what is no character, and a document would name another file than is meant.
var errNotUTF8 = errors.New("this is not UTF-8: write it so, and rename a file whose name is not, or give a symbolic link")

// notUTF8 says where a text is not UTF-8; nil: it is.
func notUTF8(text []byte) *Problem {
	if utf8.Valid(text) {
		return nil
	}
	at := Position{1, 1}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			break
		}
		at.Column += n
		if r == '\n' {
			at = Position{at.Line + 1, 1}
		}
		text = text[n:]
	}
	return &Problem{At: at, Text: errNotUTF8.Error()}
}

// halfPair reports whether a text in double quotes, as JSON and YAML have it, has half of a surrogate pair, which is no
// character (RFC 8259, 8.2). Python writes a byte of a file's name so that is not UTF-8.
func halfPair(quoted string) bool {
	before := rune(0) // the first half of a pair
	for {
		i := strings.IndexByte(quoted, '\\')
		if before != 0 && i != 0 {
			return true
		}
		if i < 0 || len(quoted) < i+2 {
			return false
		}
		kind, rest := quoted[i+1], quoted[i+2:]
		digits := min(map[byte]int{'u': 4, 'U': 8}[kind], len(rest))
		code, _ := strconv.ParseUint(rest[:digits], 16, 31) // or none, of another escape
		quoted = rest[digits:]
		r := rune(code)
		switch {
		case before != 0 && utf16.DecodeRune(before, r) == utf8.RuneError:
			return true
		case before != 0:
			before = 0
		case utf16.IsSurrogate(r):
			before = r
		}
	}
}
