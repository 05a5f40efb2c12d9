// Package shell quotes words for the command lines in errors and logs. Users copy these lines into a shell, and a path
// or the name of a host may contain anything; a remote host chooses its own name.
package shell

import "strings"

// Quote returns a word that a POSIX shell reads as s: s itself, or s in single quotes (POSIX.1-2017, Shell Command
// Language, 2.2.2). Control characters are not changed: see [github.com/nvmeof-go/nvmeof/nvmeof.Printable].
func Quote(s string) string {
	if s != "" && s[0] != '~' && strings.IndexFunc(s, special) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// special reports whether a shell may interpret a character.
func special(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("%+,-./:=@_~", r)
}
