package auth

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A side is the host or the controller.
type side interface {
	Pending() []byte
	Sent()
	Receive([]byte)
	State() State
	Err() error
}

// pass passes a pending message to the other side.
func pass(from, to side) {
	m := bytes.Clone(from.Pending())
	from.Sent()
	to.Receive(m)
}

// converse passes messages until none is pending.
func converse(h, c side) {
	for range 10 {
		switch {
		case h.Pending() != nil:
			pass(h, c)
		case c.Pending() != nil:
			pass(c, h)
		default:
			return
		}
	}
}

// A rig is a host and a controller that accept each other.
type rig struct {
	host HostConfig
	ctrl ControllerConfig
}

func newRig(t testing.TB) *rig {
	t.Helper()
	key := func(h Hash) Key {
		k, err := GenerateKey(h, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	hostKey, ctrlKey := key(HashSHA256), key(HashSHA512)
	return &rig{
		HostConfig{HostNQN: testHostNQN, SubsystemNQN: testSubNQN, HostKey: hostKey, ControllerKey: ctrlKey,
			Transaction: 7, Sequence: 9, Random: rand.Reader},
		ControllerConfig{HostNQN: testHostNQN, SubsystemNQN: testSubNQN, HostKey: hostKey, ControllerKey: ctrlKey,
			Groups: []Group{GroupNull}, Sequence: 8, Random: rand.Reader},
	}
}

func (r *rig) start() (*Host, *Controller) { return NewHost(r.host), NewController(r.ctrl) }

// TestBothRoles: host and controller succeed with every hash and group, with and without authentication of the
// controller. The larger groups are in TestVectors, too.
func TestBothRoles(t *testing.T) {
	for _, hash := range AllHashes() {
		for _, group := range AllGroups() {
			if group.isLarge() && !*long {
				continue
			}
			for _, mutual := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v,%v,mutual=%v", hash, group, mutual), func(t *testing.T) {
					t.Parallel()
					r := newRig(t)
					r.ctrl.Hashes, r.ctrl.Groups = []Hash{hash}, []Group{group}
					if !mutual {
						r.host.ControllerKey = Key{}
					}
					h, c := r.start()
					converse(h, c)
					if h.State() != StateDone || c.State() != StateDone {
						t.Fatalf("host is %v (%v), controller %v (%v)", h.State(), h.Err(), c.State(), c.Err())
					}
					if gotHash, gotGroup := c.Algorithms(); gotHash != hash || gotGroup != group || c.Mutual() != mutual {
						t.Errorf("used %v, %v, mutual %v", gotHash, gotGroup, c.Mutual())
					}
				})
			}
		}
	}
}

// TestDisagreement: what one side uses and the other does not accept.
func TestDisagreement(t *testing.T) {
	other := mustKey(t, "DHHC-1:01:iLrcx+dz6YaVK73GpAuGRBW9jL0FdmLsZuPDxndHL8o6fQVl:")
	for _, c := range []struct {
		name   string
		change func(*rig)
		byHost bool // the host refuses
		reason Reason
		detail string
	}{
		{"host's key", func(r *rig) { r.host.HostKey = other }, false, ReasonFailed, "host does not know its key"},
		{"controller's key", func(r *rig) { r.ctrl.ControllerKey = other }, true, ReasonFailed, "controller does not know its key"},
		{"no controller's key", func(r *rig) { r.ctrl.ControllerKey = Key{} }, false, ReasonFailed, "there is no key for that"},
		{"host's name", func(r *rig) { r.host.HostNQN += "x" }, false, ReasonFailed, "host does not know"},
		{"subsystem's name", func(r *rig) { r.host.SubsystemNQN += "x" }, false, ReasonFailed, "host does not know"},
		{"hash", func(r *rig) { r.host.Hashes, r.ctrl.Hashes = []Hash{HashSHA256, HashSHA384}, []Hash{HashSHA512} },
			false, ReasonHash, "host offers the hashes sha256, sha384; allowed are sha512"},
		{"group", func(r *rig) { r.host.Groups = []Group{GroupFFDHE2048} }, false, ReasonGroup, "ffdhe2048; allowed are null"},
		{"random bytes of the controller", func(r *rig) { r.ctrl.Random = strings.NewReader("") }, false, ReasonFailed, ""},
		{"random bytes of the host", func(r *rig) { r.host.Random = strings.NewReader("") }, true, ReasonFailed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.change(r)
			h, ctrl := r.start()
			converse(h, ctrl)
			var refuses, hears side = ctrl, h
			if c.byHost {
				refuses, hears = h, ctrl
			}
			if h.State() != StateFailed || ctrl.State() != StateFailed {
				t.Fatalf("host is %v, controller %v", h.State(), ctrl.State())
			}
			if !strings.Contains(refuses.Err().Error(), c.detail) {
				t.Errorf("refused for %q, want %q", refuses.Err(), c.detail)
			}
			var e *Error
			if !errors.As(hears.Err(), &e) || !e.Peer || e.Reason != c.reason {
				t.Errorf("the other side heard %v, want %v", hears.Err(), c.reason)
			}
		})
	}
}

// TestNothingIsRepeated: two exchanges of the same parties have different challenges, Diffie-Hellman values and
// responses.
func TestNothingIsRepeated(t *testing.T) {
	r := newRig(t)
	r.ctrl.Groups = []Group{GroupFFDHE2048}
	record := func() (challenge, reply []byte) {
		h, c := r.start()
		pass(h, c)
		challenge = bytes.Clone(c.Pending())
		pass(c, h)
		return challenge, bytes.Clone(h.Pending())
	}
	challenge1, reply1 := record()
	challenge2, reply2 := record()
	for at := fixedSize; at+16 <= len(challenge1); at += 16 {
		if bytes.Equal(challenge1[at:at+16], challenge2[at:at+16]) {
			t.Errorf("Challenge repeats bytes %d and on", at)
		}
	}
	for at := fixedSize; at+16 <= len(reply1); at += 16 {
		if bytes.Equal(reply1[at:at+16], reply2[at:at+16]) {
			t.Errorf("Reply repeats bytes %d and on", at)
		}
	}
	// The recorded Reply fails in another exchange.
	h, c := r.start()
	pass(h, c)
	c.Sent()
	c.Receive(reply1)
	if c.State() != StateFailure || c.Err().(*Error).Reason != ReasonFailed {
		t.Errorf("replayed Reply: controller is %v (%v)", c.State(), c.Err())
	}
}

// TestReflection: a peer without a key that sends back the messages it has received fails.
func TestReflection(t *testing.T) {
	r := newRig(t)
	h, c := r.start()
	pass(h, c)
	pass(c, h)
	reply := bytes.Clone(h.Pending())
	h.Sent()
	// The host's own response to the host's own challenge.
	forged := (&Success1{Transaction: 7, Response: reply[fixedSize:][:64]}).Encode(64)
	h.Receive(forged)
	if h.State() != StateFailure {
		t.Errorf("host is %v", h.State())
	}
}

// sequenceOf decodes the sequence number, which has the same offset in both messages.
func sequenceOf(m []byte) uint32 { return binary.LittleEndian.Uint32(m[12:]) }

// TestSequenceZero: a host that does not authenticate the controller sends S2 = 0.
func TestSequenceZero(t *testing.T) {
	r := newRig(t)
	r.host.ControllerKey = Key{}
	h, c := r.start()
	pass(h, c)
	if got := sequenceOf(c.Pending()); got != 8 {
		t.Errorf("S1 is %d, want 8", got)
	}
	pass(c, h)
	if got := sequenceOf(h.Pending()); got != 0 {
		t.Errorf("S2 is %d, want 0", got)
	}
}

// BenchmarkController measures one side: two exponentiations.
func BenchmarkController(b *testing.B) {
	for _, g := range AllGroups() {
		b.Run(g.String(), func(b *testing.B) {
			for b.Loop() {
				k, err := newKeyPair(g, rand.Reader)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := k.shared(k.public()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
