package peer

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
)

const pace = 100 * time.Millisecond // between two attempts of the same

// manage handles a message of the connection manager.
func (e *Endpoint) manage(m *packet.MAD, from netip.Addr) error {
	if e.Message != nil && e.Message(m, from) {
		return nil
	}
	local, remote := uint32(m.Get(packet.RemoteID)), uint32(m.Get(packet.LocalID))
	c := e.ids[local]
	switch a := m.Attribute(); {
	case a == packet.REQ:
		if e.Request != nil {
			e.Request(m, from)
		}
	case a == packet.DREQ:
		if c != nil {
			c.Gone = true
		}
		r := packet.NewMAD(packet.DREP)
		r.Set(packet.LocalID, uint64(local))
		r.Set(packet.RemoteID, uint64(remote))
		r.Set(packet.Transaction, m.Get(packet.Transaction))
		return e.Send(from, r.Datagram())
	case c == nil:
	case a == packet.REP:
		return c.replied(m)
	case a == packet.REJ:
		rejected := *m
		c.Refused, c.Gone = &rejected, true
	case a == packet.DREP:
		c.Gone = true
	}
	return nil
}

// replied handles the REP of a connection and confirms it.
func (c *Conn) replied(m *packet.MAD) error {
	c.Remote, c.Peer = uint32(m.Get(packet.LocalID)), uint32(m.Get(packet.RepQPN))
	if len(c.Got) == 0 && c.cid == 0 {
		c.PSN = c.startPSN(m)
	}
	if c.Silent {
		return nil
	}
	confirm := c.Confirm()
	return c.E.Send(c.To, confirm.Datagram())
}

// startPSN returns the starting PSN in a REP or REQ: the PSN with which the sender wants the first packet.
func (c *Conn) startPSN(m *packet.MAD) uint32 {
	if m.Attribute() == packet.REP {
		return uint32(m.Get(packet.RepPSN))
	}
	return uint32(m.Get(packet.ReqPSN))
}

// New adds a queue pair with random numbers to the endpoint.
func (e *Endpoint) New() *Conn {
	c := &Conn{E: e, To: e.To, Local: e.Random.Uint32() | 1, Expected: e.Random.Uint32() & 0xffffff, MTU: e.MTU,
		Responses: map[capsule.CID]capsule.Completion{}, Got: map[uint32]int{}}
	for c.QPN < 0x100 || e.conns[c.QPN] != nil {
		c.QPN = e.Random.Uint32() & 0xffffff
	}
	e.conns[c.QPN], e.ids[c.Local] = c, c
	return c
}

// Accept adds the queue pair that a REQ asks for.
func (e *Endpoint) Accept(m *packet.MAD, from netip.Addr) *Conn {
	c := e.New()
	c.To, c.Remote, c.Peer, c.PSN = from, uint32(m.Get(packet.LocalID)), uint32(m.Get(packet.ReqQPN)), uint32(m.Get(packet.ReqPSN))
	c.MTU = 128 << min(max(m.Get(packet.ReqMTU), 1), 5)
	return c
}

// REP returns a correct reply to a REQ.
func (c *Conn) REP(req *packet.MAD) packet.MAD {
	m := packet.NewMAD(packet.REP)
	m.Set(packet.Transaction, req.Get(packet.Transaction))
	for _, s := range []struct {
		packet.Field
		value uint64
	}{
		{packet.LocalID, uint64(c.Local)}, {packet.RemoteID, uint64(c.Remote)}, {packet.RepQPN, uint64(c.QPN)},
		{packet.RepPSN, uint64(c.Expected)}, {packet.RepResponderResources, 16}, {packet.RepInitiatorDepth, 16},
		{packet.RepAckDelay, 15}, {packet.RepRNRRetryCount, 7}, {packet.RepGUID, 0x0200c0fffe000002},
	} {
		m.Set(s.Field, s.value)
	}
	capsule.AcceptData{CRQSIZE: 32}.Encode(m.Private())
	return m
}

// REQ returns a correct request for the connection of a queue with that identifier and size.
func (c *Conn) REQ(qid capsule.QID, size int) packet.MAD {
	e, m := c.E, packet.NewMAD(packet.REQ)
	m.Set(packet.Transaction, e.Random.Uint64())
	for _, s := range []struct {
		packet.Field
		value uint64
	}{
		{packet.LocalID, uint64(c.Local)}, {packet.ReqService, packet.ServiceID(e.Port)}, {packet.ReqGUID, 0x0200c0fffe000001},
		{packet.ReqQPN, uint64(c.QPN)}, {packet.ReqResponderResources, 16}, {packet.ReqInitiatorDepth, 16},
		{packet.ReqRemoteTimeout, 20}, {packet.ReqPSN, uint64(c.Expected)}, {packet.ReqLocalTimeout, 20},
		{packet.ReqRetryCount, 7}, {packet.ReqPKey, uint64(packet.DefaultPKey)}, {packet.ReqMTU, mtuCode(c.MTU)},
		{packet.ReqRNRRetryCount, 7}, {packet.ReqMaxRetries, 15}, {packet.ReqLocalLID, 0xffff}, {packet.ReqRemoteLID, 0xffff},
		{packet.ReqHopLimit, 64}, {packet.ReqAckTimeout, 14},
	} {
		m.Set(s.Field, s.value)
	}
	m.SetAddresses(netip.AddrPortFrom(e.Addr(), uint16(0xc000|e.Random.Uint32())), e.To)
	capsule.RequestData{QID: qid, HRQSIZE: uint16(size), HSQSIZE: uint16(size - 1)}.Encode(m.Private()[packet.IPHeaderSize:])
	return m
}

func mtuCode(n int) (code uint64) {
	for ; n > 128; n /= 2 {
		code++
	}
	return code
}

// Confirm returns the RTU of a connection.
func (c *Conn) Confirm() packet.MAD { return c.about(packet.RTU) }

// Disconnect returns the DREQ of a connection.
func (c *Conn) Disconnect() packet.MAD {
	m := c.about(packet.DREQ)
	m.Set(packet.DreqQPN, uint64(c.Peer))
	return m
}

func (c *Conn) about(a packet.Attribute) packet.MAD {
	m := packet.NewMAD(a)
	m.Set(packet.LocalID, uint64(c.Local))
	m.Set(packet.RemoteID, uint64(c.Remote))
	m.Set(packet.Transaction, c.E.Random.Uint64())
	return m
}

// A RefusedError is a connection request that the peer rejected with a REJ.
type RefusedError struct {
	Reason uint16
	STS    capsule.RejectStatus // of NVMe, with reason 28
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("connection rejected, reason %d, NVMe status %d", e.Reason, e.STS)
}

// ErrSilent is returned if the peer did not answer in time.
var ErrSilent = errors.New("no answer")

// Dial sends a REQ and waits until the connection is established.
func (c *Conn) Dial(req packet.MAD) error {
	err := c.E.again(func() error { return c.E.Say(req) }, func() bool { return c.Remote != 0 || c.Refused != nil })
	if err == nil && c.Refused != nil {
		r := &RefusedError{Reason: uint16(c.Refused.Get(packet.RejReason))}
		if d, err := capsule.DecodeRejectData(c.Refused.Private()); err == nil && r.Reason == 28 {
			r.STS = d.STS
		}
		return r
	}
	return err
}

// again calls act every 100 ms until done returns true.
func (e *Endpoint) again(act func() error, done func() bool) error {
	for end := time.Now().Add(e.Timeout); time.Now().Before(end); {
		if err := act(); err != nil {
			return err
		}
		if err := e.Until(time.Now().Add(pace), done); err != nil {
			return err
		}
		if done() {
			return nil
		}
	}
	return ErrSilent
}

// Do sends a command and waits for its response.
func (c *Conn) Do(cmd capsule.Command, data []byte) (r capsule.Completion, err error) {
	id, ps := c.Capsule(cmd, data)
	delete(c.Responses, id)
	first := true
	err = c.E.again(func() error {
		if first {
			first = false
			return c.Post(ps...)
		}
		return c.Resend()
	}, func() bool { r, first = c.Responses[id], false; _, ok := c.Responses[id]; return ok || c.Gone })
	if _, ok := c.Responses[id]; err == nil && !ok {
		return r, errors.New("connection ended")
	}
	if err == nil && !r.Status.OK() {
		err = &StatusError{r.Status}
	}
	return r, err
}

// A StatusError is the status of a command that failed.
type StatusError struct{ capsule.Status }

func (e *StatusError) Error() string { return "status " + e.Status.String() }
