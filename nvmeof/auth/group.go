package auth

import (
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
)

// A Group is a Diffie-Hellman group. Its value is the identifier in messages.
type Group uint8

// GroupNull means no Diffie-Hellman exchange. The other groups are those of RFC 7919.
const (
	GroupNull      Group = 0
	GroupFFDHE2048 Group = 1
	GroupFFDHE3072 Group = 2
	GroupFFDHE4096 Group = 3
	GroupFFDHE6144 Group = 4
	GroupFFDHE8192 Group = 5
)

// A groupRow has the parameters of a group.
type groupRow struct {
	name     string
	bits     int   // of the prime
	x        int64 // the X of RFC 7919, appendix A
	exponent int   // bits of a private exponent, at least those required there
}

var groups = [...]groupRow{
	GroupNull:      {name: "null"},
	GroupFFDHE2048: {"ffdhe2048", 2048, 560316, 256},
	GroupFFDHE3072: {"ffdhe3072", 3072, 2625351, 320},
	GroupFFDHE4096: {"ffdhe4096", 4096, 5736041, 384},
	GroupFFDHE6144: {"ffdhe6144", 6144, 15705020, 448},
	GroupFFDHE8192: {"ffdhe8192", 8192, 10965728, 512},
}

// AllGroups returns all groups in the default order of preference of a controller: first the cheapest one with a
// 128-bit security level, then larger ones, then weaker ones.
func AllGroups() []Group {
	return []Group{GroupFFDHE3072, GroupFFDHE4096, GroupFFDHE6144, GroupFFDHE8192, GroupFFDHE2048, GroupNull}
}

// Usable reports whether g is a known group.
func (g Group) Usable() bool { return int(g) < len(groups) }

// Size returns the length of a Diffie-Hellman value in bytes, or 0 for the null group.
func (g Group) Size() int {
	if !g.Usable() {
		return 0
	}
	return groups[g].bits / 8
}

func (g Group) String() string {
	if !g.Usable() {
		return fmt.Sprintf("group %d", uint8(g))
	}
	return groups[g].name
}

// ParseGroup returns the group with the given name, as in dhchap_dhgroup of the Linux target.
func ParseGroup(s string) (Group, error) {
	at := slices.IndexFunc(groups[:], func(r groupRow) bool { return r.name == s })
	if at < 0 {
		return 0, fmt.Errorf("group %q: there are null, ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144 and ffdhe8192", s)
	}
	return Group(at), nil
}

// A keyPair is one side of a Diffie-Hellman exchange.
type keyPair struct {
	group    Group
	prime    *big.Int
	exponent *big.Int
}

// newKeyPair chooses a private exponent. For the null group the pair is empty.
func newKeyPair(g Group, random io.Reader) (keyPair, error) {
	k := keyPair{group: g}
	if g == GroupNull {
		return k, nil
	}
	r := &groups[g]
	b := make([]byte, r.exponent/8)
	if _, err := io.ReadFull(random, b); err != nil {
		return k, fmt.Errorf("drawing a private exponent: %w", err)
	}
	k.prime, k.exponent = r.prime(), new(big.Int).SetBytes(b)
	return k, nil
}

// public returns 2^x mod p with as many bytes as the prime, or nil for the null group.
func (k *keyPair) public() []byte {
	if k.group == GroupNull {
		return nil
	}
	return new(big.Int).Exp(big.NewInt(2), k.exponent, k.prime).FillBytes(make([]byte, k.group.Size()))
}

var errValue = errors.New("Diffie-Hellman value is not within 2 to p-2")

// check refuses a peer's value whose powers are known: 0, 1 and p-1 (RFC 7919, 5.1). Since p is a safe prime, all
// others have an order of at least (p-1)/2.
func (k *keyPair) check(value []byte) error {
	if k.group == GroupNull {
		return nil
	}
	y := new(big.Int).SetBytes(value)
	last := new(big.Int).Sub(k.prime, big.NewInt(1))
	if y.Cmp(big.NewInt(1)) <= 0 || y.Cmp(last) >= 0 {
		return errValue
	}
	return nil
}

// shared returns y^x mod p for the peer's value y, or nil for the null group.
func (k *keyPair) shared(value []byte) ([]byte, error) {
	if k.group == GroupNull {
		return nil, nil
	}
	if err := k.check(value); err != nil {
		return nil, err
	}
	y := new(big.Int).SetBytes(value)
	return y.Exp(y, k.exponent, k.prime).FillBytes(make([]byte, k.group.Size())), nil
}
