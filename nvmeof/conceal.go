package nvmeof

import "strings"

// keyPrefix is the start of a DH-HMAC-CHAP key in the form that nvme-cli writes (NVMe base 2.0, 8.13.5.8). leastKey
// is a lower bound of the length of the rest. Shorter text is not a key, such as "DHHC-1:NN:...:" in a message
// about keys.
const (
	keyPrefix = "DHHC-1:"
	leastKey  = 8
)

// Concealed returns s with every DH-HMAC-CHAP key replaced by "(concealed)". Messages quote faulty input and are
// displayed, logged and audited. That input can contain a key, for instance if a user gives a key file where a
// configuration is expected, or a key where the name of its file is expected.
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

// notOfKey reports whether r cannot occur in a key. A key consists of base64 and colons.
func notOfKey(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("+/=:", r)
}
