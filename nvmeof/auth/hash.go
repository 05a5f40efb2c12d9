package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"slices"
	"strings"
)

// A Hash is a hash function. Its value is the identifier in messages and keys.
type Hash uint8

// HashNone occurs only in keys: the secret is used without a transformation.
const (
	HashNone   Hash = 0
	HashSHA256 Hash = 1
	HashSHA384 Hash = 2
	HashSHA512 Hash = 3
)

// A hashRow has the properties of a hash.
type hashRow struct {
	name   string
	kernel string // name in dhchap_hash of the Linux target
	size   int    // bytes
	create func() hash.Hash
}

var hashes = [...]hashRow{
	HashSHA256: {"sha256", "hmac(sha256)", sha256.Size, sha256.New},
	HashSHA384: {"sha384", "hmac(sha384)", sha512.Size384, sha512.New384},
	HashSHA512: {"sha512", "hmac(sha512)", sha512.Size, sha512.New},
}

// AllHashes returns the hashes that can be used in an exchange, the strongest first.
func AllHashes() []Hash { return []Hash{HashSHA512, HashSHA384, HashSHA256} }

// Usable reports whether h can be used in an exchange.
func (h Hash) Usable() bool { return h >= HashSHA256 && int(h) < len(hashes) }

// Size returns the length of a hash value in bytes, or 0 if h is not usable.
func (h Hash) Size() int {
	if !h.Usable() {
		return 0
	}
	return hashes[h].size
}

func (h Hash) String() string {
	switch {
	case h == HashNone:
		return "none"
	case h.Usable():
		return hashes[h].name
	}
	return fmt.Sprintf("hash %d", uint8(h))
}

// ParseHash returns the hash with the given name: sha256, or hmac(sha256) as in Linux.
func ParseHash(s string) (Hash, error) {
	at := slices.IndexFunc(hashes[:], func(r hashRow) bool { return r.name != "" && (r.name == s || r.kernel == s) })
	if at < 0 {
		return 0, fmt.Errorf("hash %q: there are sha256, sha384 and sha512", s)
	}
	return Hash(at), nil
}

// mac returns the HMAC of the concatenated parts under key.
func (h Hash) mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(hashes[h].create, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// sum returns the hash of b.
func (h Hash) sum(b []byte) []byte {
	d := hashes[h].create()
	d.Write(b)
	return d.Sum(nil)
}

// names joins the names of hashes or groups.
func names[T fmt.Stringer](list []T) string {
	var s []string
	for _, v := range list {
		s = append(s, v.String())
	}
	return strings.Join(s, ", ")
}
