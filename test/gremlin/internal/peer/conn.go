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

// A Conn is a queue pair and its connection.
type Conn struct {
	E             *Endpoint
	To            netip.Addr
	QPN, Peer     uint32
	Local, Remote uint32 // communication IDs; Remote is 0 until the REP
	PSN           uint32 // of the next packet to send
	Expected      uint32 // of the next packet to receive
	MSN           uint32
	MTU           int

	Gone    bool        // ended, by either side
	Refused *packet.MAD // the REJ
	NAKs    []uint8     // received syndromes of NAKs, except for sequence errors and RNR

	// Answer handles a received packet; nil: Behave.
	Answer func(p *packet.Packet) error
	// Deliver is called with each message received by the queue pair; nil: the message is a response capsule.
	Deliver func(b []byte) error
	// Silent suppresses the RTU that confirms a REP.
	Silent bool
	// Memory is the data of RDMA READ responses, repeated as needed; nil: zeroes.
	Memory []byte

	Responses map[capsule.CID]capsule.Completion
	Got       map[uint32]int // packets by opcode
	cid       capsule.CID
	partial   []byte          // of a message
	flight    []packet.Packet // not acknowledged
	reading   *reading
}

// A reading is an RDMA READ in progress.
type reading struct {
	first, last uint32
	data        []byte
	done        func(b []byte) error
}

const window = 1 << 23

// before reports whether sequence number a is before b.
func before(a, b uint32) bool { return (a-b)&0xffffff >= window }

// Add returns the sequence number n after psn.
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

// message reassembles a message and handles it when it is complete.
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

// packets returns the number of packets of a message of n bytes.
func (c *Conn) packets(n int) int { return max(1, (n+c.MTU-1)/c.MTU) }

// Supply answers an RDMA READ request with the packets of its first n bytes, at least one and at most all it asks for.
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

// Acknowledge sends an acknowledge packet with the given syndrome.
func (c *Conn) Acknowledge(psn uint32, syndrome uint8) error {
	return c.E.Send(c.To, c.answer(packet.Acknowledge, psn, syndrome))
}

// acknowledged handles an acknowledge packet.
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

// confirm discards the unacknowledged packets before a sequence number.
func (c *Conn) confirm(psn uint32) {
	for len(c.flight) > 0 && before(c.flight[0].PSN, psn) {
		c.flight = c.flight[1:]
	}
}

// Resend sends the unacknowledged packets again.
func (c *Conn) Resend() error { return c.E.Send(c.To, c.flight...) }

// Next returns a packet with the next sequence number.
func (c *Conn) Next(op packet.Opcode, payload []byte) packet.Packet {
	p := packet.Packet{
		Opcode: op, PKey: packet.DefaultPKey, QPN: c.Peer, PSN: c.PSN, AckReq: true,
		Payload: payload, Pad: uint8(-len(payload) & 3),
	}
	c.PSN = Add(c.PSN, 1)
	return p
}

// Parts returns the packets of a message, with consecutive sequence numbers.
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

// Message returns the packets of a SEND.
func (c *Conn) Message(b []byte) []packet.Packet {
	return c.Parts(packet.SendFirst, packet.SendMiddle, packet.SendLast, packet.SendOnly, b)
}

// Capsule returns the packets of a command capsule and the command identifier that was chosen for it.
func (c *Conn) Capsule(cmd capsule.Command, data []byte) (capsule.CID, []packet.Packet) {
	c.cid++
	cmd.CID = c.cid
	b := make([]byte, capsule.CommandSize, capsule.CommandSize+len(data))
	cmd.Encode(b)
	return c.cid, c.Message(append(b, data...))
}

// Post sends packets and keeps them until they are acknowledged, to send them again if they are lost.
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

// Read starts an RDMA READ of n bytes and returns. done is called with the data. Only one may be in progress.
func (c *Conn) Read(va uint64, key uint32, n int, done func(b []byte) error) error {
	p := c.Next(packet.ReadRequest, nil)
	p.VA, p.RKey, p.DMALen = va, key, uint32(n)
	c.PSN = Add(p.PSN, c.packets(n))
	c.reading = &reading{first: p.PSN, last: Add(c.PSN, -1), done: done}
	return c.Post(p)
}

// fetched handles an RDMA READ response packet.
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
