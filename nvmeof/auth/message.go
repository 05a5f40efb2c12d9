package auth

import (
	"encoding/binary"
	"fmt"
)

// A MessageID says what a message is: AUTH_TYPE in the high byte, AUTH_ID in the
// low one.
type MessageID uint16

const (
	MessageNegotiate MessageID = 0x0000
	MessageFailure2  MessageID = 0x00f0 // of the host
	MessageFailure1  MessageID = 0x00f1 // of the controller
	MessageChallenge MessageID = 0x0101
	MessageReply     MessageID = 0x0102
	MessageSuccess1  MessageID = 0x0103
	MessageSuccess2  MessageID = 0x0104
)

var messageNames = map[MessageID]string{
	MessageNegotiate: "AUTH_Negotiate", MessageFailure1: "AUTH_Failure1", MessageFailure2: "AUTH_Failure2",
	MessageChallenge: "DH-HMAC-CHAP_Challenge", MessageReply: "DH-HMAC-CHAP_Reply",
	MessageSuccess1: "DH-HMAC-CHAP_Success1", MessageSuccess2: "DH-HMAC-CHAP_Success2",
}

func (m MessageID) String() string {
	if name, ok := messageNames[m]; ok {
		return name
	}
	return fmt.Sprintf("message %04x", uint16(m))
}

// Sizes in bytes. The longest messages are a Reply of 1168 bytes, and an
// AUTH_Negotiate that lists 255 protocols.
const (
	commonSize     = 6 // what every message begins with
	failureSize    = 8
	negotiateSize  = 8
	descriptorSize = 64
	fixedSize      = 16 // Challenge, Reply, Success1 and Success2 without their values
	idsPerList     = 30

	// MaxMessage is the length of the longest message.
	MaxMessage = negotiateSize + 255*descriptorSize
	// MaxFromController is the length of the longest message of a controller.
	MaxFromController = fixedSize + 64 + 1024
)

// dhchapID is the protocol's identifier in AUTH_Negotiate.
const dhchapID = 1

// identify reads what a message is and which exchange it belongs to.
func identify(b []byte) (MessageID, TransactionID, error) {
	if len(b) < commonSize {
		return 0, 0, refuse(ReasonPayload, "message of %d bytes", len(b))
	}
	return MessageID(b[0])<<8 | MessageID(b[1]), TransactionID(binary.LittleEndian.Uint16(b[4:])), nil
}

// header is what a message of n bytes begins with.
func header(m MessageID, t TransactionID, n int) []byte {
	b := make([]byte, n)
	b[0], b[1] = byte(m>>8), byte(m)
	binary.LittleEndian.PutUint16(b[4:], uint16(t))
	return b
}

// Negotiate is AUTH_Negotiate: the protocols that a host offers.
type Negotiate struct {
	Transaction   TransactionID
	SecureChannel uint8 // SC_C; 0: none
	Offered       bool  // DH-HMAC-CHAP is among the protocols
	Hashes        []Hash
	Groups        []Group
}

// Encode returns the message.
func (m *Negotiate) Encode() []byte {
	b := header(MessageNegotiate, m.Transaction, negotiateSize+descriptorSize)
	b[6], b[7] = m.SecureChannel, 1
	d := b[negotiateSize:]
	d[0], d[2], d[3] = dhchapID, byte(len(m.Hashes)), byte(len(m.Groups))
	for i, h := range m.Hashes {
		d[4+i] = byte(h)
	}
	for i, g := range m.Groups {
		d[4+idsPerList+i] = byte(g)
	}
	return b
}

// decodeNegotiate reads the first descriptor of DH-HMAC-CHAP.
func decodeNegotiate(b []byte) (m Negotiate, err error) {
	if len(b) < negotiateSize {
		return m, refuse(ReasonPayload, "AUTH_Negotiate of %d bytes", len(b))
	}
	m.Transaction, m.SecureChannel = TransactionID(binary.LittleEndian.Uint16(b[4:])), b[6]
	n, rest := int(b[7]), b[negotiateSize:]
	if n == 0 || len(rest) < n*descriptorSize {
		return m, refuse(ReasonPayload, "AUTH_Negotiate of %d bytes with %d protocols", len(b), n)
	}
	for d := range n {
		d := rest[d*descriptorSize:][:descriptorSize]
		if d[0] != dhchapID || m.Offered {
			continue
		}
		if d[2] > idsPerList || d[3] > idsPerList {
			return m, refuse(ReasonPayload, "AUTH_Negotiate with %d hashes and %d groups", d[2], d[3])
		}
		m.Offered = true
		for _, id := range d[4:][:d[2]] {
			m.Hashes = append(m.Hashes, Hash(id))
		}
		for _, id := range d[4+idsPerList:][:d[3]] {
			m.Groups = append(m.Groups, Group(id))
		}
	}
	return m, nil
}

// Challenge is DH-HMAC-CHAP_Challenge.
type Challenge struct {
	Transaction TransactionID
	Hash        Hash
	Group       Group
	Sequence    Sequence
	Value       []byte // C1, as long as the hash
	DH          []byte // g^x mod p, as long as the group's prime
}

// Encode returns the message.
func (m *Challenge) Encode() []byte {
	b := header(MessageChallenge, m.Transaction, fixedSize)
	b[6], b[8], b[9] = byte(len(m.Value)), byte(m.Hash), byte(m.Group)
	binary.LittleEndian.PutUint16(b[10:], uint16(len(m.DH)))
	binary.LittleEndian.PutUint32(b[12:], uint32(m.Sequence))
	return append(append(b, m.Value...), m.DH...)
}

// decodeChallenge reads a message whose hash and group may be any: the values are
// slices of b.
func decodeChallenge(b []byte) (m Challenge, err error) {
	if len(b) < fixedSize {
		return m, refuse(ReasonPayload, "Challenge of %d bytes", len(b))
	}
	m.Transaction = TransactionID(binary.LittleEndian.Uint16(b[4:]))
	m.Hash, m.Group = Hash(b[8]), Group(b[9])
	m.Sequence = Sequence(binary.LittleEndian.Uint32(b[12:]))
	values, err := split("Challenge", b[fixedSize:], int(b[6]), int(binary.LittleEndian.Uint16(b[10:])))
	if err == nil {
		m.Value, m.DH = values[0], values[1]
	}
	return m, err
}

// Reply is DH-HMAC-CHAP_Reply.
type Reply struct {
	Transaction TransactionID
	Response    []byte   // as long as the hash
	Sequence    Sequence // 0 where the controller need not prove itself
	Challenge   []byte   // C2, nil where the controller need not prove itself
	DH          []byte   // g^y mod p
}

// Encode returns the message.
func (m *Reply) Encode() []byte {
	b := header(MessageReply, m.Transaction, fixedSize)
	b[6] = byte(len(m.Response))
	challenge := m.Challenge
	if challenge != nil {
		b[8] = 1
	} else {
		challenge = make([]byte, len(m.Response))
	}
	binary.LittleEndian.PutUint16(b[10:], uint16(len(m.DH)))
	binary.LittleEndian.PutUint32(b[12:], uint32(m.Sequence))
	return append(append(append(b, m.Response...), challenge...), m.DH...)
}

// decodeReply returns values that are slices of b.
func decodeReply(b []byte) (m Reply, err error) {
	if len(b) < fixedSize {
		return m, refuse(ReasonPayload, "Reply of %d bytes", len(b))
	}
	m.Transaction = TransactionID(binary.LittleEndian.Uint16(b[4:]))
	m.Sequence = Sequence(binary.LittleEndian.Uint32(b[12:]))
	n := int(b[6])
	values, err := split("Reply", b[fixedSize:], n, n, int(binary.LittleEndian.Uint16(b[10:])))
	if err != nil {
		return m, err
	}
	m.Response, m.DH = values[0], values[2]
	if b[8]&1 != 0 {
		m.Challenge = values[1]
	}
	return m, nil
}

// Success1 is DH-HMAC-CHAP_Success1.
type Success1 struct {
	Transaction TransactionID
	Response    []byte // nil where the controller does not authenticate itself
}

// Encode returns the message; size is that of the hash.
func (m *Success1) Encode(size int) []byte {
	b := header(MessageSuccess1, m.Transaction, fixedSize+size)
	b[6] = byte(size)
	if m.Response != nil {
		b[8] = 1
		copy(b[fixedSize:], m.Response)
	}
	return b
}

// decodeSuccess1 returns a response that is a slice of b.
func decodeSuccess1(b []byte) (m Success1, err error) {
	if len(b) < fixedSize {
		return m, refuse(ReasonPayload, "Success1 of %d bytes", len(b))
	}
	m.Transaction = TransactionID(binary.LittleEndian.Uint16(b[4:]))
	values, err := split("Success1", b[fixedSize:], int(b[6]))
	if err == nil && b[8]&1 != 0 {
		m.Response = values[0]
	}
	return m, err
}

// encodeSuccess2 is DH-HMAC-CHAP_Success2.
func encodeSuccess2(t TransactionID) []byte { return header(MessageSuccess2, t, fixedSize) }

// EncodeFailure is AUTH_Failure1 or AUTH_Failure2.
func EncodeFailure(m MessageID, t TransactionID, r Reason) []byte {
	b := header(m, t, failureSize)
	b[6], b[7] = reasonCode, byte(r)
	return b
}

// decodeFailure is why the peer refused.
func decodeFailure(b []byte) error {
	if len(b) < failureSize {
		return &Error{Peer: true, Reason: ReasonFailed}
	}
	return &Error{Peer: true, Reason: Reason(b[7])}
}

// split cuts values of the given lengths off b, which may be longer.
func split(what string, b []byte, lengths ...int) ([][]byte, error) {
	values := make([][]byte, 0, len(lengths))
	for _, n := range lengths {
		if n > len(b) {
			return nil, refuse(ReasonPayload, "%s is shorter than its values of %v bytes", what, lengths)
		}
		values, b = append(values, b[:n:n]), b[n:]
	}
	return values, nil
}
