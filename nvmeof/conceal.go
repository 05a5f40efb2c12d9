package nvmeof

import "strings"

// keyPrefix begins a key of DH-HMAC-CHAP as nvme-cli writes it (NVMe base 2.0, 8.13.5.8), and leastKey is shorter than
// any: "DHHC-1:NN:...:", in sentences about keys, is none.
const (
	keyPrefix = "DHHC-1:"
	leastKey  = 8
)

// Concealed returns a text without the keys that stand in it, as one does whose author has mistaken the file of a key
// for a configuration, or the key for its file: what is wrong is shown, logged and kept in an audit.
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

// notOfKey reports whether a rune can be in no key, which is base64 between colons.
func notOfKey(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("+/=:", r)
}
