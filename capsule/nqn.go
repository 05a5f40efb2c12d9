package capsule

import (
	"bytes"
	"errors"
	"unicode"
	"unicode/utf8"
)

// MaxNQN is the maximum length of an NQN in bytes (NVMe base 2.0, 4.5).
const MaxNQN = 223

// DiscoveryNQN is the well known name of discovery subsystems.
const DiscoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"

// Errors of [NQNField.Check].
var (
	ErrNQNUnterminated = errors.New("NQN has no terminating NUL")
	ErrNQNEmpty        = errors.New("NQN is empty")
	ErrNQNLong         = errors.New("NQN is longer than 223 bytes")
	ErrNQNText         = errors.New("NQN is not printable UTF-8")
)

// NQNField is an NQN in a structure: UTF-8, terminated by NUL.
type NQNField [256]byte

// MakeNQNField returns the field that contains s, truncated to [MaxNQN] bytes.
func MakeNQNField(s string) (f NQNField) {
	copy(f[:MaxNQN], s)
	return f
}

// text returns the bytes before the first NUL.
func (f *NQNField) text() []byte {
	if i := bytes.IndexByte(f[:], 0); i >= 0 {
		return f[:i]
	}
	return f[:]
}

// Check returns why the field is not a valid name that can be compared and logged, or nil.
func (f *NQNField) Check() error {
	s := f.text()
	switch {
	case len(s) == len(f):
		return ErrNQNUnterminated
	case len(s) == 0:
		return ErrNQNEmpty
	case len(s) > MaxNQN:
		return ErrNQNLong
	case !utf8.Valid(s):
		return ErrNQNText
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		if !unicode.IsPrint(r) {
			return ErrNQNText
		}
		i += n
	}
	return nil
}

// String returns the text up to the first NUL, whatever it is. Quote a peer's text before it is shown, unless it passed
// Check.
func (f *NQNField) String() string { return string(f.text()) }

// Is reports whether the field contains exactly s. It does not allocate.
func (f *NQNField) Is(s string) bool { return string(f.text()) == s }

// Text returns the content of a fixed ASCII field of a structure (a serial number, an address) without the spaces and
// NULs that pad it.
func Text(field []byte) string {
	if i := bytes.IndexByte(field, 0); i >= 0 {
		field = field[:i]
	}
	return string(bytes.TrimRight(field, " "))
}

// PutText fills a fixed ASCII field with s, truncated or padded with spaces as Identify data requires (NVMe base 2.0,
// 1.5.2).
func PutText(field []byte, s string) {
	for i := copy(field, s); i < len(field); i++ {
		field[i] = ' '
	}
}
