package config

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// errNotUTF8 is the error of text that is not UTF-8. Parsers would replace invalid bytes by U+FFFD, and the
// document would name a file other than the intended one.
var errNotUTF8 = errors.New("this is not UTF-8: convert it; if the name of a file is not UTF-8, rename the file, or give a symbolic link to it")

// notUTF8 returns a problem at the first byte that is not UTF-8, or nil. width is how many columns a character of n
// bytes takes; see Position.
func notUTF8(text []byte, width func(n int) int) *Problem {
	if utf8.Valid(text) {
		return nil
	}
	at := Position{1, 1}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			break
		}
		at.Column += width(n)
		if r == '\n' {
			at = Position{at.Line + 1, 1}
		}
		text = text[n:]
	}
	return &Problem{At: at, Text: errNotUTF8.Error()}
}

// halfPair reports whether a string in double quotes, in JSON or YAML, has half of a surrogate pair, which is not a
// character (RFC 8259, 8.2). Python writes bytes of file names that are not UTF-8 in this way.
func halfPair(quoted string) bool {
	before := rune(0) // first half of a pair
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
		code, _ := strconv.ParseUint(rest[:digits], 16, 31) // 0 for another escape
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
