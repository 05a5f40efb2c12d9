// Package shell writes words for the command lines that errors and logs advise. Who reads
// them copies them to a shell, and a path or the name of a host may hold anything: a stranger
// chooses the latter.
package shell

import "strings"

// Quote returns a word that a POSIX shell reads as s: s itself, or s in single quotes
// (POSIX.1-2017, Shell Command Language, 2.2.2). Control characters stay: see
// [github.com/nvmeof-go/nvmeof/nvmeof.Printable].
func Quote(s string) string {
	if s != "" && s[0] != '~' && strings.IndexFunc(s, special) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// special reports whether a shell may take a character for something else than itself.
func special(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("%+,-./:=@_~", r)
}
