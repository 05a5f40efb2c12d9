package auth

import "encoding/binary"

// A Sequence numbers the challenges of one party. 0 is none.
type Sequence uint32

// A TransactionID is chosen by the host and the same in all messages of an
// exchange (T_ID).
type TransactionID uint16

// A proof is what a response covers.
type proof struct {
	hash        Hash
	key         Key
	challenge   []byte
	shared      []byte // Diffie-Hellman secret; nil with the null group
	sequence    Sequence
	transaction TransactionID
	role        string
	from, to    string // names of who proves itself, and to whom
}

// Roles of those who prove themselves.
const (
	roleHost       = "HostHost"
	roleController = "Controller"
)

// response is RVAL of Reply and of Success1: the HMAC of challenge, sequence
// number, transaction identifier, SC_C (which is 0), role, and both names with a 0
// between them. The challenge is augmented first where there is a shared secret:
// Ca = HMAC(H(shared), C).
func (p *proof) response() []byte {
	challenge := p.challenge
	if p.shared != nil {
		challenge = p.hash.mac(p.hash.sum(p.shared), challenge)
	}
	b := append([]byte(nil), challenge...)
	b = binary.LittleEndian.AppendUint32(b, uint32(p.sequence))
	b = binary.LittleEndian.AppendUint16(b, uint16(p.transaction))
	b = append(b, 0)
	b = append(b, p.role...)
	b = append(b, p.from...)
	b = append(b, 0)
	b = append(b, p.to...)
	return p.hash.mac(p.key.transform(p.from), b)
}
