package auth

import (
	"io"
	"slices"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// HostConfig describes a host in an authentication.
type HostConfig struct {
	HostNQN      nvmeof.NQN
	SubsystemNQN nvmeof.NQN
	HostKey      Key // required: the key with which the host authenticates itself
	// ControllerKey is the key that the controller must know. Without one, the controller need not authenticate itself.
	ControllerKey Key

	Hashes []Hash  // hashes to offer; default: AllHashes
	Groups []Group // likewise; default: AllGroups

	Transaction TransactionID // must differ from that of the previous exchange on the queue
	Sequence    Sequence      // of the challenge; must not be 0
	Random      io.Reader     // cryptographically secure
}

// A Host is the host's side of one authentication.
type Host struct {
	exchange
	hashes []Hash
	groups []Group
}

// NewHost returns a Host whose AUTH_Negotiate is pending.
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

// Receive handles a message of the controller, which may be followed by other bytes. It may take long; see the package
// documentation.
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

// challenge checks the Challenge, and makes the Reply.
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

// success1 checks the controller's response, if one was required.
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
