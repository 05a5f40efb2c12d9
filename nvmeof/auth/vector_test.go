package auth

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"flag"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

const (
	testHostNQN = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
	testSubNQN  = "nqn.2026-01.org.example:vectors"
)

// vectors are computed by testdata/vectors.py.
//
//go:embed testdata/vectors.txt
var vectors string

// A vector is one exchange in which both sides authenticate themselves.
type vector struct {
	hash             Hash
	group            Group
	hostKey, ctrlKey string
	transaction      TransactionID
	s1, s2           Sequence
	c1, c2, x, y     []byte
	response, proof  []byte // of the host, of the controller
	challenge, reply string // SHA-256 of the messages
	success1         string
}

func parseVector(t *testing.T, line string) (v vector) {
	t.Helper()
	var c1, c2, x, y, rh, rc string
	_, err := fmt.Sscan(line, &v.hash, &v.group, &v.hostKey, &v.ctrlKey, &v.transaction, &v.s1, &v.s2,
		&c1, &c2, &x, &y, &rh, &rc, &v.challenge, &v.reply, &v.success1)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[*string]*[]byte{&c1: &v.c1, &c2: &v.c2, &x: &v.x, &y: &v.y, &rh: &v.response, &rc: &v.proof} {
		if *from == "-" {
			continue
		}
		if *to, err = hex.DecodeString(*from); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func mustKey(t testing.TB, s string) Key {
	t.Helper()
	k, err := ParseKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sides returns both sides, whose random bytes are those of the vector.
func (v *vector) sides(t *testing.T) (*Host, *Controller) {
	hostKey, ctrlKey := mustKey(t, v.hostKey), mustKey(t, v.ctrlKey)
	h := NewHost(HostConfig{
		HostNQN: testHostNQN, SubsystemNQN: testSubNQN, HostKey: hostKey, ControllerKey: ctrlKey,
		Transaction: v.transaction, Sequence: v.s2, Random: bytes.NewReader(append(v.y, v.c2...)),
	})
	c := NewController(ControllerConfig{
		HostNQN: testHostNQN, SubsystemNQN: testSubNQN, HostKey: hostKey, ControllerKey: ctrlKey,
		Hashes: []Hash{v.hash}, Groups: []Group{v.group}, Sequence: v.s1, Random: bytes.NewReader(append(v.c1, v.x...)),
	})
	return h, c
}

var long = flag.Bool("long", false, "all larger groups with each hash and both roles, and primes of more than 2048 bits")

// isLarge reports whether computing in the group takes most of the time: the quick forms use only one of each kind.
func (g Group) isLarge() bool { return g.Size() > 2048/8 }

// TestVectors: every message, with every hash and group, is as computed by an independent program. In the quick form
// the larger groups have one hash each.
func TestVectors(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(vectors), "\n")
	if len(lines) != 18 {
		t.Fatalf("%d vectors, want one for each of 3 hashes and 6 groups", len(lines))
	}
	for _, line := range lines {
		v := parseVector(t, line)
		hashes := AllHashes()
		if v.group.isLarge() && v.hash != hashes[int(v.group)%len(hashes)] && !*long {
			continue
		}
		t.Run(fmt.Sprintf("%v,%v", v.hash, v.group), func(t *testing.T) {
			t.Parallel()
			h, c := v.sides(t)
			pass(h, c)
			wantSum(t, "Challenge", c.Pending(), v.challenge)
			pass(c, h)
			wantSum(t, "Reply", h.Pending(), v.reply)
			if got := h.Pending()[fixedSize:][:len(v.response)]; !bytes.Equal(got, v.response) {
				t.Errorf("response of the host is %x, want %x", got, v.response)
			}
			pass(h, c)
			wantSum(t, "Success1", c.Pending(), v.success1)
			if got := c.Pending()[fixedSize:]; !bytes.Equal(got, v.proof) {
				t.Errorf("response of the controller is %x, want %x", got, v.proof)
			}
			pass(c, h)
			pass(h, c)
			if h.State() != StateDone || c.State() != StateDone {
				t.Errorf("host is %v (%v), controller %v (%v)", h.State(), h.Err(), c.State(), c.Err())
			}
		})
	}
}

func wantSum(t *testing.T, what string, message []byte, want string) {
	t.Helper()
	if got := fmt.Sprintf("%x", sha256.Sum256(message)); got != want {
		t.Errorf("%s is not the expected one: %x", what, message)
	}
}

// TestPrimes checks each prime: by its definition (RFC 7919, appendix A), with e from its series, by the last digits
// that the RFC prints, and that it is a safe prime.
func TestPrimes(t *testing.T) {
	for g, tail := range map[Group]string{
		GroupFFDHE2048: "886b423861285c97ffffffffffffffff",
		GroupFFDHE3072: "25e41d2b66c62e37ffffffffffffffff",
		GroupFFDHE4096: "c68a007e5e655f6affffffffffffffff",
		GroupFFDHE6144: "a40e329cd0e40e65ffffffffffffffff",
		GroupFFDHE8192: "d68c8bb7c5c6424cffffffffffffffff",
	} {
		t.Run(g.String(), func(t *testing.T) {
			t.Parallel()
			r := &groups[g]
			p := r.prime()
			if got := fmt.Sprintf("%x", p); !strings.HasSuffix(got, tail) || len(got) != r.bits/4 {
				t.Errorf("prime of %d digits ends in %s", len(got), got[len(got)-32:])
			}
			power := func(n int) *big.Int { return new(big.Int).Lsh(big.NewInt(1), uint(n)) }
			want := eulerTimes(r.bits - 130)
			want.Add(want, big.NewInt(r.x)).Lsh(want, 64)
			want.Add(want, power(r.bits)).Sub(want, power(r.bits-64)).Sub(want, big.NewInt(1))
			if p.Cmp(want) != 0 {
				t.Fatalf("prime is %x, want %x", p, want)
			}
			if r.bits > 2048 && !*long || r.bits > 4096 {
				return // seconds; that it is the RFC's is shown above
			}
			if half := new(big.Int).Rsh(p, 1); !p.ProbablyPrime(1) || !half.ProbablyPrime(1) {
				t.Error("not a safe prime")
			}
		})
	}
}

// eulerTimes returns [2^n e], with e = 1 + 1/1! + 1/2! + ...
func eulerTimes(n int) *big.Int {
	const guard = 64
	sum, term := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(n+guard))
	for k := int64(1); term.Sign() > 0; k++ {
		sum.Add(sum, term)
		term.Div(term, big.NewInt(k))
	}
	return sum.Rsh(sum, guard)
}
