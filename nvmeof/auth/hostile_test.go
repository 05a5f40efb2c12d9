package auth

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/big"
	"testing"
)

// put returns a copy of b with some bytes replaced.
func put(b []byte, at int, v ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], v)
	return b
}

func put16(b []byte, at int, v uint16) []byte {
	return put(b, at, byte(v), byte(v>>8))
}

// A hostile case is a message sent instead of the right one, and the expected result.
type hostile struct {
	name   string
	at     State // next message at the receiver
	change func(right []byte) []byte
	reason Reason
}

func short(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }

func cutBy(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }

// dh replaces the last bytes by a Diffie-Hellman value.
func dh(v *big.Int) func([]byte) []byte {
	return func(b []byte) []byte {
		size := GroupFFDHE2048.Size()
		return append(bytes.Clone(b[:len(b)-size]), v.FillBytes(make([]byte, size))...)
	}
}

// prime2048 returns p plus n.
func prime2048(n int64) *big.Int {
	p := groups[GroupFFDHE2048].prime()
	return p.Add(p, big.NewInt(n))
}

func become(m []byte) func([]byte) []byte { return func([]byte) []byte { return m } }

// badValues are invalid Diffie-Hellman values.
func badValues(at State) (cases []hostile) {
	for name, v := range map[string]*big.Int{
		"106 value 0": new(big.Int), "106 value 1": big.NewInt(1), "106 value p-1": prime2048(-1), "106 value p": prime2048(0),
		"106 value p+1": prime2048(1),
	} {
		cases = append(cases, hostile{name, at, dh(v), ReasonPayload})
	}
	return cases
}

var toController = append([]hostile{
	{"105 empty", StateNegotiate, short(0), ReasonPayload},
	{"105 shorter than any", StateNegotiate, short(5), ReasonPayload},
	{"105 shorter than the fixed part", StateNegotiate, short(7), ReasonPayload},
	{"105 descriptor cut short", StateNegotiate, cutBy(1), ReasonPayload},
	{"105 no protocol", StateNegotiate, func(b []byte) []byte { return put(b, 7, 0) }, ReasonPayload},
	{"105 two protocols, one there", StateNegotiate, func(b []byte) []byte { return put(b, 7, 2) }, ReasonPayload},
	{"105 255 protocols, one there", StateNegotiate, func(b []byte) []byte { return put(b, 7, 255) }, ReasonPayload},
	{"105 other protocol", StateNegotiate, func(b []byte) []byte { return put(b, 8, 2) }, ReasonProtocol},
	{"105 31 hashes", StateNegotiate, func(b []byte) []byte { return put(b, 10, 31) }, ReasonPayload},
	{"105 255 groups", StateNegotiate, func(b []byte) []byte { return put(b, 11, 255) }, ReasonPayload},
	{"105 no hash", StateNegotiate, func(b []byte) []byte { return put(b, 10, 0) }, ReasonHash},
	{"105 unknown hashes", StateNegotiate, func(b []byte) []byte { return put(b, 12, 0, 4, 0xe0) }, ReasonHash},
	{"105 no group", StateNegotiate, func(b []byte) []byte { return put(b, 11, 0) }, ReasonGroup},
	{"105 unknown groups", StateNegotiate, func(b []byte) []byte { return put(b, 42, 6, 7, 8, 9, 0xe0, 0xff) }, ReasonGroup},
	{"105 secure channel", StateNegotiate, func(b []byte) []byte { return put(b, 6, 1) }, ReasonChannel},
	{"107 Reply first", StateNegotiate, func(b []byte) []byte { return put(b, 0, 1, 2) }, ReasonMessage},
	{"107 Success2 first", StateNegotiate, become(encodeSuccess2(7)), ReasonMessage},
	{"107 Challenge of the host", StateNegotiate, func(b []byte) []byte { return put(b, 0, 1, 1) }, ReasonMessage},
	{"107 unknown type", StateNegotiate, func(b []byte) []byte { return put(b, 0, 9) }, ReasonMessage},
	{"107 unknown message", StateNegotiate, func(b []byte) []byte { return put(b, 1, 0x77) }, ReasonMessage},
	{"107 AUTH_Failure1 of the host", StateNegotiate, become(EncodeFailure(MessageFailure1, 7, 1)), ReasonMessage},

	{"106 fixed part cut short", StateReply, short(15), ReasonPayload},
	{"106 value cut short", StateReply, cutBy(1), ReasonPayload},
	{"106 response of 0", StateReply, func(b []byte) []byte { return put(b, 6, 0) }, ReasonPayload},
	{"106 response of another hash", StateReply, func(b []byte) []byte { return put(b, 6, 32) }, ReasonPayload},
	{"106 response of 255", StateReply, func(b []byte) []byte { return put(b, 6, 255) }, ReasonPayload},
	{"106 no value", StateReply, func(b []byte) []byte { return put16(b, 10, 0) }, ReasonPayload},
	{"106 value of odd length", StateReply, func(b []byte) []byte { return put16(b, 10, 255) }, ReasonPayload},
	{"106 value of another group", StateReply, func(b []byte) []byte { return append(put16(b, 10, 384), make([]byte, 128)...) }, ReasonPayload},
	{"106 value of 65535", StateReply, func(b []byte) []byte { return put16(b, 10, 0xffff) }, ReasonPayload},
	{"106 one bit of the response", StateReply, func(b []byte) []byte { return put(b, 16, b[16]^1) }, ReasonFailed},
	{"106 last bit of the response", StateReply, func(b []byte) []byte { return put(b, 79, b[79]^0x80) }, ReasonFailed},
	{"106 one bit of the value", StateReply, func(b []byte) []byte { return put(b, len(b)-1, b[len(b)-1]^1) }, ReasonFailed},
	{"107 Negotiate again", StateReply, become((&Negotiate{Transaction: 7, Hashes: AllHashes(), Groups: AllGroups()}).Encode()), ReasonMessage},
	{"107 Success2 instead of Reply", StateReply, become(encodeSuccess2(7)), ReasonMessage},
	{"107 other transaction", StateReply, func(b []byte) []byte { return put(b, 4, 8) }, ReasonMessage},

	{"107 Reply again", StateSuccess2, func(b []byte) []byte { return put(b, 1, 2) }, ReasonMessage},
	{"107 Success2 of another transaction", StateSuccess2, func(b []byte) []byte { return put(b, 5, 1) }, ReasonMessage},
	{"107 Success2 cut short", StateSuccess2, short(15), ReasonPayload},
}, badValues(StateReply)...)

var toHost = append([]hostile{
	{"empty", StateChallenge, short(0), ReasonPayload},
	{"fixed part cut short", StateChallenge, short(15), ReasonPayload},
	{"value cut short", StateChallenge, cutBy(1), ReasonPayload},
	{"challenge of 0", StateChallenge, func(b []byte) []byte { return put(b, 6, 0) }, ReasonPayload},
	{"challenge of 255", StateChallenge, func(b []byte) []byte { return put(b, 6, 255) }, ReasonPayload},
	{"no hash", StateChallenge, func(b []byte) []byte { return put(b, 8, 0) }, ReasonHash},
	{"unknown hash", StateChallenge, func(b []byte) []byte { return put(b, 8, 4) }, ReasonHash},
	{"unknown group", StateChallenge, func(b []byte) []byte { return put(b, 9, 6) }, ReasonGroup},
	{"group not offered", StateChallenge, func(b []byte) []byte { return put(b, 9, 5) }, ReasonGroup},
	{"null group with a value", StateChallenge, func(b []byte) []byte { return put(b, 9, 0) }, ReasonPayload},
	{"group without a value", StateChallenge, func(b []byte) []byte { return put16(b, 10, 0) }, ReasonPayload},
	{"value of 65535", StateChallenge, func(b []byte) []byte { return put16(b, 10, 0xffff) }, ReasonPayload},
	{"other transaction", StateChallenge, func(b []byte) []byte { return put(b, 4, 8) }, ReasonMessage},
	{"Success1 at once", StateChallenge, become((&Success1{Transaction: 7}).Encode(64)), ReasonMessage},
	{"Negotiate of the controller", StateChallenge, func(b []byte) []byte { return put(b, 0, 0, 0) }, ReasonMessage},
	{"AUTH_Failure2 of the controller", StateChallenge, become(EncodeFailure(MessageFailure2, 7, 1)), ReasonMessage},

	{"no proof", StateSuccess1, become((&Success1{Transaction: 7}).Encode(64)), ReasonFailed},
	{"proof of 0 bytes", StateSuccess1, func(b []byte) []byte { return put(b, 6, 0) }, ReasonFailed},
	{"proof cut short", StateSuccess1, cutBy(1), ReasonPayload},
	{"Success1 cut short", StateSuccess1, short(15), ReasonPayload},
	{"one bit of the proof", StateSuccess1, func(b []byte) []byte { return put(b, 20, b[20]^4) }, ReasonFailed},
	{"Challenge again", StateSuccess1, func(b []byte) []byte { return put(b, 1, 1) }, ReasonMessage},
	{"Success1 of another transaction", StateSuccess1, func(b []byte) []byte { return put(b, 4, 6) }, ReasonMessage},
}, badValues(StateChallenge)...)

// upTo returns the right message for a state, which has not been received yet.
func upTo(t *testing.T, from, to side, at State) []byte {
	t.Helper()
	for to.State() != at || from.Pending() == nil {
		switch {
		case from.Pending() != nil:
			pass(from, to)
		case to.Pending() != nil:
			pass(to, from)
		default:
			t.Fatalf("never comes to %v", at)
		}
	}
	m := bytes.Clone(from.Pending())
	from.Sent()
	return m
}

func wantRefused(t *testing.T, s side, failure MessageID, reason Reason) {
	t.Helper()
	var e *Error
	if s.State() != StateFailure || !errors.As(s.Err(), &e) || e.Peer || e.Reason != reason {
		t.Fatalf("state %v (%v), want %v", s.State(), s.Err(), reason)
	}
	m := s.Pending()
	id, _, err := identify(m)
	if err != nil || id != failure || len(m) != failureSize || m[6] != reasonCode || Reason(m[7]) != reason {
		t.Errorf("answer is % x", m)
	}
	s.Receive(m) // nothing changes that any more
	s.Sent()
	s.Receive(m)
	if s.State() != StateFailed || s.Pending() != nil {
		t.Errorf("afterwards: %v", s.State())
	}
}

// TestHostileHost is rows 105 to 107 of the bad input catalogue.
func TestHostileHost(t *testing.T) {
	for _, c := range toController {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.ctrl.Groups = []Group{GroupFFDHE2048}
			h, ctrl := r.start()
			right := upTo(t, h, ctrl, c.at)
			m := bytes.Clone(c.change(right))
			if compute := ctrl.Begin(m); compute != (c.reason == ReasonFailed) {
				t.Errorf("an exponentiation is computed: %v; for a message that is refused since %v", compute, c.reason)
			}
			clear(m) // it is the caller's again
			ctrl.Compute()
			wantRefused(t, ctrl, MessageFailure1, c.reason)
			if c.at != StateNegotiate && len(right) >= commonSize {
				return
			}
			ctrl = NewController(r.ctrl) // the right message would have done
			if ctrl.Receive(right); ctrl.State() != StateChallenge {
				t.Errorf("the right message gets %v", ctrl.State())
			}
		})
	}
}

// TestHostileController is the same for the controller's messages.
func TestHostileController(t *testing.T) {
	for _, c := range toHost {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.ctrl.Groups, r.host.Groups = []Group{GroupFFDHE2048}, []Group{GroupFFDHE2048, GroupNull}
			h, ctrl := r.start()
			h.Receive(c.change(upTo(t, ctrl, h, c.at)))
			wantRefused(t, h, MessageFailure2, c.reason)
		})
	}
}

// TestBeforeItsTurn: a message arrives while the controller has one pending.
func TestBeforeItsTurn(t *testing.T) {
	r := newRig(t)
	h, c := r.start()
	negotiate := bytes.Clone(h.Pending())
	pass(h, c)
	c.Receive(negotiate)
	wantRefused(t, c, MessageFailure1, ReasonMessage)
}

// TestTrailingBytes: buffers may be longer than the message in them.
func TestTrailingBytes(t *testing.T) {
	r := newRig(t)
	r.ctrl.Groups = []Group{GroupFFDHE2048}
	h, c := r.start()
	padded := func(from, to side) {
		m := append(bytes.Clone(from.Pending()), bytes.Repeat([]byte{0xa5}, 100)...)
		from.Sent()
		to.Receive(m)
	}
	padded(h, c)
	padded(c, h)
	padded(h, c)
	padded(c, h)
	padded(h, c)
	if h.State() != StateDone || c.State() != StateDone {
		t.Errorf("host is %v (%v), controller %v (%v)", h.State(), h.Err(), c.State(), c.Err())
	}
}

// TestSeveralProtocols: DH-HMAC-CHAP may follow other protocols.
func TestSeveralProtocols(t *testing.T) {
	r := newRig(t)
	h, c := r.start()
	m := bytes.Clone(h.Pending())
	m[7] = 2
	m = append(m[:negotiateSize:negotiateSize], append(make([]byte, descriptorSize), m[negotiateSize:]...)...)
	m[negotiateSize] = 9
	if c.Receive(m); c.State() != StateChallenge {
		t.Errorf("controller is %v (%v)", c.State(), c.Err())
	}
}

// FuzzController feeds modified messages of a host that knows the key, and random ones: nothing panics, and only the
// right Reply authenticates.
func FuzzController(f *testing.F) {
	for _, c := range toController {
		f.Add([]byte{1, 2, 3}, uint16(c.at), byte(c.reason))
	}
	f.Add((&Negotiate{Hashes: AllHashes(), Groups: AllGroups()}).Encode(), uint16(0), byte(0))
	f.Add((&Reply{Response: make([]byte, 32), Challenge: make([]byte, 32)}).Encode(), uint16(6), byte(32))
	f.Fuzz(func(t *testing.T, message []byte, at uint16, flip byte) {
		r := newRig(t)
		h, c := r.start()
		c.Receive(message)
		if c.State() == StateDone {
			t.Fatal("authenticated by one message")
		}
		c = NewController(r.ctrl)
		pass(h, c)
		pass(c, h)
		reply := bytes.Clone(h.Pending())
		changed := bytes.Clone(reply)
		changed[int(at)%len(changed)] ^= flip
		changed = append(changed[:max(0, len(changed)-len(message)%len(changed))], message...)
		c.Receive(changed)
		if c.State() == StateSuccess1 && !bytes.Equal(changed[fixedSize:][:64], reply[fixedSize:][:64]) {
			t.Fatal("another response was accepted")
		}
		c.Sent()
		c.Receive(message)
	})
}

// FuzzHost is the same for the host.
func FuzzHost(f *testing.F) {
	f.Add((&Challenge{Hash: HashSHA256, Value: make([]byte, 32)}).Encode(), uint16(0), byte(0))
	f.Add((&Success1{Response: make([]byte, 32)}).Encode(32), uint16(8), byte(1))
	f.Add(EncodeFailure(MessageFailure1, 7, 1), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, message []byte, at uint16, flip byte) {
		r := newRig(t)
		r.host.Groups = []Group{GroupNull}
		h, c := r.start()
		h.Sent()
		if h.Receive(message); h.State() == StateDone || h.State() == StateSuccess1 {
			t.Fatal("authenticated by one message")
		}
		h = NewHost(r.host)
		pass(h, c)
		pass(c, h)
		pass(h, c)
		right := bytes.Clone(c.Pending())
		changed := bytes.Clone(right)
		changed[int(at)%len(changed)] ^= flip
		changed = append(changed[:max(0, len(changed)-len(message)%len(changed))], message...)
		h.Receive(changed)
		if h.State() == StateSuccess2 && !bytes.Equal(changed[fixedSize:][:64], right[fixedSize:][:64]) {
			t.Fatal("another proof was accepted")
		}
	})
}

// FuzzNegotiate: a decoded message encodes to one that decodes to the same.
func FuzzNegotiate(f *testing.F) {
	f.Add((&Negotiate{Transaction: 1, Hashes: AllHashes(), Groups: AllGroups()}).Encode())
	f.Add(binary.LittleEndian.AppendUint64(nil, 0xff00000000000000))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeNegotiate(b)
		if err != nil || !m.Offered {
			return
		}
		again, err := decodeNegotiate(m.Encode())
		if err != nil || !bytes.Equal(again.Encode(), m.Encode()) {
			t.Fatalf("%+v became %+v (%v)", m, again, err)
		}
	})
}
