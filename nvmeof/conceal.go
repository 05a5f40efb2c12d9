package nvmeof

import "strings"

// keyPrefix is the beginning of a DH-HMAC-CHAP key as nvme-cli writes it (NVMe base 2.0, 8.13.5.8). Every key is longer
// than leastKey; "DHHC-1:NN:...:", as in error messages about keys, is not a key.
const (
	keyPrefix = "DHHC-1:"
	leastKey  = 8
)

// Concealed returns a text without the keys that it contains, for example because a user confused a key file with a
// configuration file. Such text is shown in error messages, logs and audit records.
func Concealed(s string) string {
	if !strings.Contains(s, keyPrefix) {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, keyPrefix)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(keyPrefix)
		end := strings.IndexFunc(after, notOfKey)
		if end < 0 {
			end = len(after)
		}
		if end < leastKey {
			b.WriteString(after[:end])
		} else {
			b.WriteString("(concealed)")
		}
		s = after[end:]
	}
}

// notOfKey reports whether a rune cannot be part of a key, which is base64 between colons.
func notOfKey(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("+/=:", r)
}
