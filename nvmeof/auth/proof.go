package auth

import "encoding/binary"

// A Sequence is the sequence number of a challenge. 0 means no challenge.
type Sequence uint32

// A TransactionID identifies an exchange in all of its messages (T_ID). The host chooses it.
type TransactionID uint16

// A proof has what a response covers.
type proof struct {
	hash        Hash
	key         Key
	challenge   []byte
	shared      []byte // Diffie-Hellman secret; nil with the null group
	sequence    Sequence
	transaction TransactionID
	role        string
	from, to    string // NQNs of the party that authenticates itself, and of its peer
}

// Roles of the party that authenticates itself.
const (
	roleHost       = "HostHost"
	roleController = "Controller"
)

// response returns RVAL of Reply or Success1: the HMAC of challenge, sequence number, transaction identifier, SC_C
// (which is 0), role, and both NQNs with a 0 between them. If there is a shared secret, the challenge is augmented
// first: Ca = HMAC(H(shared), C).
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
