package config

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// errLayout is the value of a panic when a text has a layout that cannot be edited.
type errLayout struct{}

// A layout finds lines and values of a text by position.
type layout struct {
	text  []byte
	lines []int // offset at which each line begins
	json  bool
}

func newLayout(text []byte) *layout {
	l := &layout{text: text, lines: []int{0}, json: isJSON(text)}
	for i, c := range text {
		if c == '\n' {
			l.lines = append(l.lines, i+1)
		}
	}
	return l
}

// lineEnd returns the offset at which the next line begins. Lines count from 0.
func (l *layout) lineEnd(line int) int {
	if line+1 < len(l.lines) {
		return l.lines[line+1]
	}
	return len(l.text)
}

// line returns the number of the line, from 0, that has the offset.
func (l *layout) line(offset int) int {
	low, high := 0, len(l.lines)
	for high-low > 1 {
		if mid := (low + high) / 2; l.lines[mid] <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// offset returns the offset of a position. Columns count characters in YAML, bytes in JSON.
func (l *layout) offset(p Position) int {
	if p.Line < 1 || p.Line > len(l.lines) || p.Column < 1 {
		panic(errLayout{})
	}
	at, end := l.lines[p.Line-1], l.lineEnd(p.Line-1)
	for range p.Column - 1 {
		if at >= end {
			panic(errLayout{})
		}
		size := 1
		if !l.json {
			_, size = utf8.DecodeRune(l.text[at:end])
		}
		at += size
	}
	return at
}

// content returns a line without surrounding space, and its indentation.
func (l *layout) content(line int) (text string, indent int) {
	text = strings.TrimRight(string(l.text[l.lines[line]:l.lineEnd(line)]), " \t\r\n")
	bare := strings.TrimLeft(text, " ")
	return bare, len(text) - len(bare)
}

func isComment(line string) bool { return strings.HasPrefix(line, "#") }

// empty reports whether a line has no part of a value.
func (l *layout) empty(line int) bool {
	text, indent := l.content(line)
	return text == "" || isComment(text) || indent == 0 && (text == "---" || text == "...")
}

// last returns the end of the lines of a block that begins within [from, to) and has the given indentation. They
// are the lines with a value, and comments after them that are indented further.
func (l *layout) last(from, to, indent int) int {
	end := l.lineEnd(l.line(from))
	comments := true
	for n := l.line(from) + 1; n < len(l.lines) && l.lines[n] < to; n++ {
		text, in := l.content(n)
		switch {
		case !l.empty(n):
			end, comments = l.lineEnd(n), true
		case isComment(text) && in > indent && comments:
			end = l.lineEnd(n)
		default:
			comments = false
		}
	}
	return end
}

// head returns the start of the comments directly above a block that have the same indentation.
func (l *layout) head(start, floor, indent int) int {
	for n := l.line(start) - 1; n >= 0 && l.lines[n] >= floor; n-- {
		if text, in := l.content(n); !isComment(text) || in != indent {
			break
		}
		start = l.lines[n]
	}
	return start
}

// end returns the end of the value that begins at start.
func (l *layout) end(start int, flow bool) int {
	if start >= len(l.text) {
		panic(errLayout{})
	}
	switch c := l.text[start]; c {
	case '{', '[':
		return l.bracketEnd(start)
	case '"', '\'':
		return l.quoteEnd(start)
	case '|', '>':
		panic(errLayout{})
	}
	for i := start; i < len(l.text); i++ {
		switch c := l.text[i]; {
		case c == '\n', c == '#' && i > start && isSpace(l.text[i-1]), flow && bytes.IndexByte([]byte(",]}"), c) >= 0:
			return start + len(bytes.TrimRight(l.text[start:i], " \t\r"))
		}
	}
	return start + len(bytes.TrimRight(l.text[start:], " \t\r"))
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func (l *layout) quoteEnd(start int) int {
	quote := l.text[start]
	for i := start + 1; i < len(l.text); i++ {
		switch c := l.text[i]; {
		case c == '\\' && quote == '"':
			i++
		case c == quote && quote == '\'' && i+1 < len(l.text) && l.text[i+1] == '\'':
			i++
		case c == quote:
			return i + 1
		}
	}
	panic(errLayout{})
}

// bracketEnd returns the end of a list or an object in brackets.
func (l *layout) bracketEnd(start int) int {
	depth := 0
	for i := start; i < len(l.text); i++ {
		switch c := l.text[i]; c {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"', '\'':
			if before := l.text[i-1]; isSpace(before) || bytes.IndexByte([]byte("{[,:"), before) >= 0 { // otherwise it is part of a word
				i = l.quoteEnd(i) - 1
			}
		case '#':
			if isSpace(l.text[i-1]) && !l.json {
				i = l.lineEnd(l.line(i)) - 1
			}
		}
	}
	panic(errLayout{})
}
