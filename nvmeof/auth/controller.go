package auth

import (
	"io"
	"slices"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// ControllerConfig describes a controller in an authentication.
type ControllerConfig struct {
	HostNQN      nvmeof.NQN
	SubsystemNQN nvmeof.NQN
	HostKey      Key // required: the key that the host must know
	// ControllerKey is the key with which the controller authenticates itself if the host requires that. Without one,
	// hosts that require it are refused.
	ControllerKey Key

	Hashes []Hash  // allowed hashes, the preferred one first; default: AllHashes
	Groups []Group // likewise; default: AllGroups

	Sequence Sequence  // of the challenge; must not be 0
	Random   io.Reader // cryptographically secure
}

// A Controller is the controller's side of one authentication.
type Controller struct {
	exchange
	hashes []Hash
	groups []Group
	pair   keyPair
	work   func() error // the rest of Receive; nil: none
}

// NewController returns a Controller that waits for AUTH_Negotiate.
func NewController(c ControllerConfig) *Controller {
	return &Controller{
		exchange: exchange{
			hostNQN: c.HostNQN, subsystemNQN: c.SubsystemNQN, hostKey: c.HostKey, ctrlKey: c.ControllerKey,
			random: c.Random, s1: c.Sequence,
		},
		hashes: orAll(c.Hashes, AllHashes), groups: orAll(c.Groups, AllGroups),
	}
}

// Receive handles a message of the host, which may be followed by other bytes. It may take long; see the package
// documentation.
func (c *Controller) Receive(b []byte) {
	if c.Begin(b) {
		c.Compute()
	}
}

// Begin does the part of Receive that needs no exponentiation and is fast. It reports whether [Controller.Compute] must
// do the rest; it need not if the message is invalid. Begin does not retain b.
func (c *Controller) Begin(b []byte) (compute bool) {
	if c.Ended() || c.state == StateFailure || c.work != nil {
		return c.work != nil
	}
	id, t, err := identify(b)
	switch {
	case err != nil:
	case id == MessageFailure2:
		c.failed(decodeFailure(b))
		return false
	case id == MessageNegotiate && c.state == StateNegotiate:
		c.transaction = t
		err = c.negotiate(b)
	case c.state != StateNegotiate && t != c.transaction:
		err = refuse(ReasonMessage, "%v has transaction %d instead of %d", id, t, c.transaction)
	case id == MessageReply && c.state == StateReply:
		err = c.reply(b)
	case id == MessageSuccess2 && c.state == StateSuccess2:
		err = c.success2(b)
	default:
		if c.state == StateNegotiate {
			c.transaction = t
		}
		err = refuse(ReasonMessage, "%v came when %v was next", id, c.state)
	}
	if err != nil {
		c.fail(MessageFailure1, err)
	}
	return c.work != nil
}

// Compute does the rest of Receive, if Begin has left any, which takes long. Any goroutine may call it, as long as no
// other uses the Controller meanwhile.
func (c *Controller) Compute() {
	if c.work == nil {
		return
	}
	err := c.work()
	if c.work = nil; err != nil {
		c.fail(MessageFailure1, err)
	}
}

// compute does the work at once if the group is null, so that there is no exponentiation, and otherwise leaves it to
// Compute.
func (c *Controller) compute(work func() error) error {
	if c.group == GroupNull {
		return work()
	}
	c.work = work
	return nil
}

// negotiate chooses hash and group, and makes the Challenge.
func (c *Controller) negotiate(b []byte) error {
	m, err := decodeNegotiate(b)
	if err != nil {
		return err
	}
	var ok bool
	switch {
	case m.SecureChannel != 0:
		return refuse(ReasonChannel, "host asks for secure channel concatenation %d", m.SecureChannel)
	case !m.Offered:
		return refuse(ReasonProtocol, "host does not offer DH-HMAC-CHAP")
	}
	if c.hash, ok = choose(c.hashes, m.Hashes); !ok {
		return refuse(ReasonHash, "host offers the hashes %s; allowed are %s", names(m.Hashes), names(c.hashes))
	}
	if c.group, ok = choose(c.groups, m.Groups); !ok {
		return refuse(ReasonGroup, "host offers the groups %s; allowed are %s", names(m.Groups), names(c.groups))
	}
	if c.c1, err = c.draw(c.hash.Size()); err != nil {
		return err
	}
	if c.pair, err = newKeyPair(c.group, c.random); err != nil {
		return err
	}
	return c.compute(func() error {
		out := Challenge{
			Transaction: c.transaction, Hash: c.hash, Group: c.group, Sequence: c.s1, Value: c.c1, DH: c.pair.public(),
		}
		c.send(StateChallenge, out.Encode(), StateReply)
		return nil
	})
}

// choose returns the first of ours that is offered.
func choose[T comparable](ours, offered []T) (v T, ok bool) {
	for _, v := range ours {
		if slices.Contains(offered, v) {
			return v, true
		}
	}
	return v, false
}

// reply checks the Reply, and makes Success1.
func (c *Controller) reply(b []byte) error {
	m, err := decodeReply(b)
	if err != nil {
		return err
	}
	size := c.hash.Size()
	if len(m.Response) != size || len(m.DH) != c.group.Size() {
		return refuse(ReasonPayload, "Reply has values of %d and %d bytes where %v and %v have %d and %d",
			len(m.Response), len(m.DH), c.hash, c.group, size, c.group.Size())
	}
	if err := c.pair.check(m.DH); err != nil {
		return refuse(ReasonPayload, "%v", err)
	}
	m.Response, m.DH, m.Challenge = slices.Clone(m.Response), slices.Clone(m.DH), slices.Clone(m.Challenge)
	return c.compute(func() error { return c.judge(&m) })
}

// judge checks the host's response, whose length is correct, and makes Success1.
func (c *Controller) judge(m *Reply) (err error) {
	if c.shared, err = c.pair.shared(m.DH); err != nil {
		return refuse(ReasonPayload, "%v", err)
	}
	if !equal(m.Response, c.response(true)) {
		return refuse(ReasonFailed, "host does not know its key")
	}
	out := Success1{Transaction: c.transaction}
	if m.Challenge == nil {
		c.send(StateSuccess1, out.Encode(c.hash.Size()), StateDone)
		return nil
	}
	c.c2, c.s2 = m.Challenge, m.Sequence
	if c.ctrlKey.IsZero() {
		return refuse(ReasonFailed, "host requires the controller to authenticate, and there is no key for that")
	}
	out.Response = c.response(false)
	c.send(StateSuccess1, out.Encode(c.hash.Size()), StateSuccess2)
	return nil
}

func (c *Controller) success2(b []byte) error {
	if len(b) < fixedSize {
		return refuse(ReasonPayload, "Success2 of %d bytes", len(b))
	}
	c.state = StateDone
	return nil
}
