package auth

import (
	"io"
	"slices"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// HostConfig is what a host brings to an exchange.
type HostConfig struct {
	HostNQN      nvmeof.NQN
	SubsystemNQN nvmeof.NQN
	HostKey      Key // required: what the host proves itself with
	// ControllerKey is what the controller must know; none: it need not prove
	// itself.
	ControllerKey Key

	Hashes []Hash  // to offer; default: AllHashes
	Groups []Group // likewise; default: AllGroups

	Transaction TransactionID // not that of the exchange before on the queue
	Sequence    Sequence      // of the challenge, not 0
	Random      io.Reader     // cryptographically secure
}

// A Host is the host's side of one exchange.
type Host struct {
	exchange
	hashes []Hash
	groups []Group
}

// NewHost returns an exchange whose AUTH_Negotiate is pending.
func NewHost(c HostConfig) *Host {
	h := &Host{
		exchange: exchange{
			hostNQN: c.HostNQN, subsystemNQN: c.SubsystemNQN, hostKey: c.HostKey, ctrlKey: c.ControllerKey,
			random: c.Random, transaction: c.Transaction, s2: c.Sequence,
		},
		hashes: orAll(c.Hashes, AllHashes), groups: orAll(c.Groups, AllGroups),
	}
	m := Negotiate{Transaction: c.Transaction, Hashes: h.hashes, Groups: h.groups}
	h.send(StateNegotiate, m.Encode(), StateChallenge)
	return h
}

// Receive takes a message of the controller, which may be followed by other bytes.
// It may take long; see the package comment.
func (h *Host) Receive(b []byte) {
	if h.Ended() || h.state == StateFailure {
		return
	}
	id, t, err := identify(b)
	switch {
	case err != nil:
	case id == MessageFailure1:
		h.failed(decodeFailure(b))
		return
	case t != h.transaction:
		err = refuse(ReasonMessage, "%v has transaction %d instead of %d", id, t, h.transaction)
	case id == MessageChallenge && h.state == StateChallenge:
		err = h.challenge(b)
	case id == MessageSuccess1 && h.state == StateSuccess1:
		err = h.success1(b)
	default:
		err = refuse(ReasonMessage, "%v came when %v was next", id, h.state)
	}
	if err != nil {
		h.fail(MessageFailure2, err)
	}
}

// challenge makes the Reply.
func (h *Host) challenge(b []byte) error {
	m, err := decodeChallenge(b)
	switch {
	case err != nil:
		return err
	case !m.Hash.Usable() || !slices.Contains(h.hashes, m.Hash):
		return refuse(ReasonHash, "controller chose %v, which was not offered", m.Hash)
	case !m.Group.Usable() || !slices.Contains(h.groups, m.Group):
		return refuse(ReasonGroup, "controller chose %v, which was not offered", m.Group)
	case len(m.Value) != m.Hash.Size() || len(m.DH) != m.Group.Size():
		return refuse(ReasonPayload, "Challenge has values of %d and %d bytes where %v and %v have %d and %d",
			len(m.Value), len(m.DH), m.Hash, m.Group, m.Hash.Size(), m.Group.Size())
	}
	h.hash, h.group, h.s1 = m.Hash, m.Group, m.Sequence
	h.c1 = slices.Clone(m.Value)
	pair, err := newKeyPair(h.group, h.random)
	if err != nil {
		return err
	}
	if h.shared, err = pair.shared(m.DH); err != nil {
		return refuse(ReasonPayload, "%v", err)
	}
	out := Reply{Transaction: h.transaction, Response: h.response(true), DH: pair.public()}
	if !h.ctrlKey.IsZero() {
		if h.c2, err = h.draw(h.hash.Size()); err != nil {
			return err
		}
		out.Challenge, out.Sequence = h.c2, h.s2
	}
	h.send(StateReply, out.Encode(), StateSuccess1)
	return nil
}

// success1 judges the controller's proof where one was asked for.
func (h *Host) success1(b []byte) error {
	m, err := decodeSuccess1(b)
	switch {
	case err != nil:
		return err
	case !h.Mutual():
		h.state = StateDone
		return nil
	case m.Response == nil:
		return refuse(ReasonFailed, "controller does not authenticate itself")
	case !equal(m.Response, h.response(false)):
		return refuse(ReasonFailed, "controller does not know its key")
	}
	h.send(StateSuccess2, encodeSuccess2(h.transaction), StateDone)
	return nil
}
