package peer

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
)

// Syndromes of the AETH (IBTA 9.7.5.2.1).
const (
	ACK            uint8 = 0x1f // and no credits
	RNR            uint8 = 0x20 // with a timer of 5 bits
	NAKSequence    uint8 = 0x60
	NAKInvalid     uint8 = 0x61
	NAKAccess      uint8 = 0x62
	NAKOperational uint8 = 0x63
)

// A Conn is a queue pair.
type Conn struct {
	E             *Endpoint
	To            netip.Addr
	QPN, Peer     uint32
	Local, Remote uint32 // communication IDs; Remote is 0 until the REP
	PSN           uint32 // of what is sent next
	Expected      uint32 // of what comes next
	MSN           uint32
	MTU           int

	Gone    bool        // ended, by either side
	Refused *packet.MAD // the REJ
	NAKs    []uint8     // syndromes of NAKs that came, but for those of sequence and readiness

	// Answer is what becomes of a packet that comes; nil: Behave.
	Answer func(p *packet.Packet) error
	// Deliver is given each message that was sent to the queue pair; nil: it is a response.
	Deliver func(b []byte) error
	// Silent keeps the confirmation of a REP back.
	Silent bool
	// Memory is what RDMA READ requests are answered with, repeated; nil: zeroes.
	Memory []byte

	Responses map[capsule.CID]capsule.Completion
	Got       map[uint32]int // packets by opcode
	cid       capsule.CID
	partial   []byte          // of a message
	flight    []packet.Packet // not acknowledged
	reading   *reading
}

// A reading is an RDMA READ that was begun.
type reading struct {
	first, last uint32
	data        []byte
	done        func(b []byte) error
}

const window = 1 << 23

// before reports whether a sequence number is older than another.
func before(a, b uint32) bool { return (a-b)&0xffffff >= window }

// Add is a sequence number n later.
func Add(psn uint32, n int) uint32 { return (psn + uint32(n)) & 0xffffff }

// Behave answers a packet as a correct peer does.
func (c *Conn) Behave(p *packet.Packet) error {
	switch op := p.Opcode; {
	case op == packet.Acknowledge:
		return c.acknowledged(p)
	case op >= packet.ReadResponseFirst && op <= packet.ReadResponseOnly:
		return c.fetched(p)
	case op >= 0x20 || op > 0x17:
		return nil // of another service
	case before(p.PSN, c.Expected):
		if op == packet.ReadRequest {
			return c.Supply(p, int(p.DMALen))
		}
		return c.Acknowledge(Add(c.Expected, -1), ACK)
	case p.PSN != c.Expected:
		return c.Acknowledge(c.Expected, NAKSequence)
	case op == packet.ReadRequest:
		c.Expected = Add(c.Expected, c.packets(int(p.DMALen)))
		c.MSN = Add(c.MSN, 1)
		return c.Supply(p, int(p.DMALen))
	}
	c.Expected = Add(c.Expected, 1)
	last := p.Opcode != packet.SendFirst && p.Opcode != packet.SendMiddle && p.Opcode != packet.WriteFirst && p.Opcode != packet.WriteMiddle
	if last {
		c.MSN = Add(c.MSN, 1)
	}
	if p.AckReq || last {
		if err := c.Acknowledge(p.PSN, ACK); err != nil {
			return err
		}
	}
	if op := p.Opcode; op <= packet.SendOnlyImm || op == packet.SendOnlyInv || op == 0x16 {
		return c.message(p, last)
	}
	return nil
}

func (c *Conn) receive(p *packet.Packet) error {
	c.Got[uint32(p.Opcode)]++
	if c.Answer != nil {
		return c.Answer(p)
	}
	return c.Behave(p)
}

// message joins the parts of one, and takes it.
func (c *Conn) message(p *packet.Packet, last bool) error {
	c.partial = append(c.partial, p.Payload...)
	if !last {
		return nil
	}
	b := c.partial
	c.partial = nil
	if c.Deliver != nil {
		return c.Deliver(b)
	}
	if r, err := capsule.DecodeCompletion(b); err == nil {
		c.Responses[r.CID] = r
	}
	return nil
}

// packets is how many a message of n bytes takes.
func (c *Conn) packets(n int) int { return max(1, (n+c.MTU-1)/c.MTU) }

// Supply answers an RDMA READ with its first n bytes, or as many as it asks for.
func (c *Conn) Supply(p *packet.Packet, n int) error {
	total := c.packets(int(p.DMALen))
	data := make([]byte, p.DMALen)
	for i := 0; i < len(data) && len(c.Memory) > 0; i += len(c.Memory) {
		copy(data[i:], c.Memory)
	}
	for i := range total {
		part := data[min(len(data), i*c.MTU):min(len(data), (i+1)*c.MTU)]
		if i*c.MTU >= n && i > 0 {
			break
		}
		op := packet.ReadResponseMiddle
		switch {
		case total == 1:
			op = packet.ReadResponseOnly
		case i == 0:
			op = packet.ReadResponseFirst
		case i == total-1:
			op = packet.ReadResponseLast
		}
		r := c.answer(op, Add(p.PSN, i), ACK)
		r.Payload, r.Pad = part, uint8(-len(part)&3)
		if err := c.E.Send(c.To, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) answer(op packet.Opcode, psn uint32, syndrome uint8) packet.Packet {
	return packet.Packet{Opcode: op, PKey: packet.DefaultPKey, QPN: c.Peer, PSN: psn & 0xffffff, Syndrome: syndrome, MSN: c.MSN}
}

// Acknowledge sends an acknowledgement of whatever kind.
func (c *Conn) Acknowledge(psn uint32, syndrome uint8) error {
	return c.E.Send(c.To, c.answer(packet.Acknowledge, psn, syndrome))
}

// acknowledged takes one.
func (c *Conn) acknowledged(p *packet.Packet) error {
	switch kind := p.Syndrome >> 5; {
	case kind == 0:
		c.confirm(Add(p.PSN, 1))
	case kind == 1, p.Syndrome == NAKSequence:
		c.confirm(p.PSN)
		if kind == 1 {
			time.Sleep(time.Millisecond)
		}
		return c.Resend()
	default:
		c.NAKs = append(c.NAKs, p.Syndrome)
	}
	return nil
}

// confirm forgets what was sent before a sequence number.
func (c *Conn) confirm(psn uint32) {
	for len(c.flight) > 0 && before(c.flight[0].PSN, psn) {
		c.flight = c.flight[1:]
	}
}

// Resend sends again what has not been acknowledged.
func (c *Conn) Resend() error { return c.E.Send(c.To, c.flight...) }

// Next is a packet with the next sequence number.
func (c *Conn) Next(op packet.Opcode, payload []byte) packet.Packet {
	p := packet.Packet{
		Opcode: op, PKey: packet.DefaultPKey, QPN: c.Peer, PSN: c.PSN, AckReq: true,
		Payload: payload, Pad: uint8(-len(payload) & 3),
	}
	c.PSN = Add(c.PSN, 1)
	return p
}

// Parts are the packets of a message.
func (c *Conn) Parts(first, middle, last, only packet.Opcode, b []byte) (ps []packet.Packet) {
	if len(b) <= c.MTU {
		return []packet.Packet{c.Next(only, b)}
	}
	op := first
	for ; len(b) > c.MTU; b = b[c.MTU:] {
		ps = append(ps, c.Next(op, b[:c.MTU]))
		op = middle
	}
	return append(ps, c.Next(last, b))
}

// Message is the packets of a SEND.
func (c *Conn) Message(b []byte) []packet.Packet {
	return c.Parts(packet.SendFirst, packet.SendMiddle, packet.SendLast, packet.SendOnly, b)
}

// Capsule is the packets of a command, with the identifier that it has then.
func (c *Conn) Capsule(cmd capsule.Command, data []byte) (capsule.CID, []packet.Packet) {
	c.cid++
	cmd.CID = c.cid
	b := make([]byte, capsule.CommandSize, capsule.CommandSize+len(data))
	cmd.Encode(b)
	return c.cid, c.Message(append(b, data...))
}

// Post sends packets, and again if they are lost.
func (c *Conn) Post(ps ...packet.Packet) error {
	c.flight = append(c.flight, ps...)
	return c.E.Send(c.To, ps...)
}

// Write sends an RDMA WRITE.
func (c *Conn) Write(va uint64, key uint32, b []byte) error {
	ps := c.Parts(packet.WriteFirst, packet.WriteMiddle, packet.WriteLast, packet.WriteOnly, b)
	ps[0].VA, ps[0].RKey, ps[0].DMALen = va, key, uint32(len(b))
	return c.Post(ps...)
}

// Read begins an RDMA READ, one at a time, whose data go to done.
func (c *Conn) Read(va uint64, key uint32, n int, done func(b []byte) error) error {
	p := c.Next(packet.ReadRequest, nil)
	p.VA, p.RKey, p.DMALen = va, key, uint32(n)
	c.PSN = Add(p.PSN, c.packets(n))
	c.reading = &reading{first: p.PSN, last: Add(c.PSN, -1), done: done}
	return c.Post(p)
}

// fetched takes a part of an RDMA READ's data.
func (c *Conn) fetched(p *packet.Packet) error {
	r := c.reading
	if r == nil || p.PSN != Add(r.first, len(r.data)/c.MTU) {
		return nil
	}
	if r.data = append(r.data, p.Payload...); p.PSN != r.last {
		return nil
	}
	c.reading = nil
	c.confirm(Add(p.PSN, 1))
	return r.done(r.data)
}
