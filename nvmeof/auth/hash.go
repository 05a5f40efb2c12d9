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

// A Hash is a hash function by its identifier in messages and in keys.
type Hash uint8

// HashNone is of keys only: the secret is used as it is.
const (
	HashNone   Hash = 0
	HashSHA256 Hash = 1
	HashSHA384 Hash = 2
	HashSHA512 Hash = 3
)

// A hashRow is what there is to know of a hash.
type hashRow struct {
	name   string
	kernel string // as the Linux target's dhchap_hash has it
	size   int    // bytes
	create func() hash.Hash
}

var hashes = [...]hashRow{
	HashSHA256: {"sha256", "hmac(sha256)", sha256.Size, sha256.New},
	HashSHA384: {"sha384", "hmac(sha384)", sha512.Size384, sha512.New384},
	HashSHA512: {"sha512", "hmac(sha512)", sha512.Size, sha512.New},
}

// AllHashes are those that exchanges can use, the strongest first.
func AllHashes() []Hash { return []Hash{HashSHA512, HashSHA384, HashSHA256} }

// Usable reports whether exchanges can use h.
func (h Hash) Usable() bool { return h >= HashSHA256 && int(h) < len(hashes) }

// Size is the length of a value in bytes, 0 for a hash that is not usable.
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

// ParseHash reads the name of a hash: sha256, or hmac(sha256) as Linux has it.
func ParseHash(s string) (Hash, error) {
	at := slices.IndexFunc(hashes[:], func(r hashRow) bool { return r.name != "" && (r.name == s || r.kernel == s) })
	if at < 0 {
		return 0, fmt.Errorf("hash %q: there are sha256, sha384 and sha512", s)
	}
	return Hash(at), nil
}

// mac is the HMAC of the parts, one after the other, under key.
func (h Hash) mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(hashes[h].create, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// sum is the hash of b.
func (h Hash) sum(b []byte) []byte {
	d := hashes[h].create()
	d.Write(b)
	return d.Sum(nil)
}

// names joins what a list of hashes or groups is called.
func names[T fmt.Stringer](list []T) string {
	var s []string
	for _, v := range list {
		s = append(s, v.String())
	}
	return strings.Join(s, ", ")
}
