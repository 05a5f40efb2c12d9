package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/peer"
)

// inputs returns attacks with malformed or misplaced input: the rows of test/badinput/README.md that a peer can send,
// each on an association of its own.
func inputs() []attack {
	return []attack{
		{"packets", fmt.Sprintf("%d bad packets to queue pairs that stand", len(badPackets())), func(r *raid) error {
			return each(r, badPackets(), func(s *peer.Session, in badPacket) error {
				c := s.IO[0]
				for _, b := range in.make(c) {
					if err := c.E.Throw(c.E.To, b); err != nil {
						return err
					}
				}
				return nil
			})
		}},
		{"messages", "bad messages of the connection manager: every field of a REQ at its limits, lengths, headers, messages out of place", messages},
		{"capsules", fmt.Sprintf("%d bad commands: descriptors, lengths, fields, connections", len(badCommands())), func(r *raid) error {
			return each(r, badCommands(), func(s *peer.Session, in badCommand) error {
				c := s.Admin
				if in.io {
					c = s.IO[0]
				}
				cmd := in.make(r)
				_, ps := c.Capsule(cmd, make([]byte, in.data))
				return c.Post(ps...)
			})
		}},
		{"opcodes", "every opcode on an admin and on an I/O queue, with random fields", opcodes},
		{"order", fmt.Sprintf("%d sequences in a wrong order: before Connect, before the controller is enabled, twice, after the end", len(orders())), func(r *raid) error {
			e, err := r.open()
			if err != nil {
				return err
			}
			e.Timeout = 500 * time.Millisecond
			return cycle(r, orders(), func(o order) error {
				if err := tolerate(o.act(r, e)); err != nil {
					return err
				}
				return e.Leave()
			})
		}},
	}
}

// cycle calls act for each item of a list, again and again, until the raid ends.
func cycle[T any](r *raid, list []T, act func(T) error) error {
	err := r.until(func() error {
		x := list[r.done%len(list)]
		r.done++
		return act(x)
	})
	r.say("%d of %d were sent", min(r.done, len(list)), len(list))
	return err
}

// each sends each input on an association of its own, again and again.
func each[T any](r *raid, list []T, send func(*peer.Session, T) error) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	e.Timeout = time.Second
	return cycle(r, list, func(in T) error {
		s, err := e.Login(r.name(), 1)
		if err != nil {
			r.say("a login: %v", err)
			return tolerate(err)
		}
		if err := send(&s, in); err != nil {
			return err
		}
		if err := e.Poll(3 * time.Millisecond); err != nil {
			return err
		}
		return e.Leave()
	})
}

// A badPacket makes datagrams for a queue pair.
type badPacket struct {
	row  int // of the catalogue
	name string
	make func(c *peer.Conn) [][]byte
}

// one returns a valid packet after change has altered it.
func one(change func(p *packet.Packet)) func(c *peer.Conn) [][]byte {
	return func(c *peer.Conn) [][]byte {
		p := *valid(c)
		change(&p)
		return [][]byte{c.E.Seal(c.E.To, p.Append(nil))}
	}
}

// sequence returns consecutive packets with the given opcodes and n bytes of payload each.
func sequence(n int, ops ...packet.Opcode) func(c *peer.Conn) [][]byte {
	return func(c *peer.Conn) (out [][]byte) {
		for _, op := range ops {
			p := c.Next(op, make([]byte, n))
			p.VA, p.RKey, p.DMALen = peer.MemoryVA, peer.MemoryKey, uint32(n)
			out = append(out, c.E.Seal(c.E.To, p.Append(nil)))
		}
		return out
	}
}

// changed alters the bytes of a valid packet, before the ICRC is computed or, if sealed, after it.
func changed(sealed bool, change func(b []byte) []byte) func(c *peer.Conn) [][]byte {
	return func(c *peer.Conn) [][]byte {
		b := valid(c).Append(nil)
		if sealed {
			return [][]byte{change(c.E.Seal(c.E.To, b))}
		}
		return [][]byte{c.E.Seal(c.E.To, change(b))}
	}
}

func cut(n int) func(b []byte) []byte { return func(b []byte) []byte { return b[:n] } }

func badPackets() []badPacket {
	rdma := func(op packet.Opcode, n uint32) func(c *peer.Conn) [][]byte {
		return one(func(p *packet.Packet) {
			p.Opcode, p.VA, p.RKey, p.DMALen, p.Payload = op, peer.MemoryVA, peer.MemoryKey, n, nil
		})
	}
	acknowledge := func(syndrome uint8, n int) func(c *peer.Conn) [][]byte {
		return one(func(p *packet.Packet) {
			p.Opcode, p.Syndrome, p.PSN, p.Payload = packet.Acknowledge, syndrome, peer.Add(p.PSN, n), nil
		})
	}
	list := []badPacket{
		{12, "nothing", changed(true, cut(0))},
		{12, "a byte", changed(true, cut(1))},
		{12, "half a BTH", changed(true, cut(6))},
		{12, "a BTH without ICRC", changed(true, cut(12))},
		{12, "no RETH", changed(false, func(b []byte) []byte { b[0] = byte(packet.WriteOnly); return b[:12] })},
		{12, "no DETH", changed(false, func(b []byte) []byte { b[0] = byte(packet.DatagramSend); return b[:12] })},
		{13, "padding without payload", changed(false, func(b []byte) []byte { b[1] |= 0x30; return b[:12] })},
		{13, "a length that is no multiple of 4", changed(false, func(b []byte) []byte { return b[:len(b)-1] })},
		{13, "padding in a FIRST", one(func(p *packet.Packet) { p.Opcode, p.Pad, p.Payload = packet.SendFirst, 1, make([]byte, 1023) })},
		{14, "a wrong ICRC", changed(true, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })},
		{15, "queue pair 0", one(func(p *packet.Packet) { p.QPN = 0 })},
		{15, "queue pair 1, connected", one(func(p *packet.Packet) { p.QPN = 1 })},
		{15, "a multicast queue pair", one(func(p *packet.Packet) { p.QPN = 0xffffff })},
		{16, "transport version 1", one(func(p *packet.Packet) { p.Version = 1 })},
		{16, "P_Key 0", one(func(p *packet.Packet) { p.PKey = 0 })},
		{16, "P_Key 8000h", one(func(p *packet.Packet) { p.PKey = 0x8000 })},
		{16, "reserved bits", changed(false, func(b []byte) []byte { b[4] |= 0x3f; b[8] |= 0x7f; return b })},
		{18, "WRITE", rdma(packet.WriteOnly, 8)},
		{18, "WRITE of nothing", rdma(packet.WriteOnly, 0)},
		{18, "WRITE with immediate", rdma(packet.WriteOnlyImm, 0)},
		{18, "READ", rdma(packet.ReadRequest, 4096)},
		{18, "READ of nothing", rdma(packet.ReadRequest, 0)},
		{18, "CmpSwap", rdma(packet.CompareSwap, 0)},
		{18, "FetchAdd", rdma(packet.FetchAdd, 0)},
		{20, "READ that wraps", one(func(p *packet.Packet) {
			p.Opcode, p.VA, p.RKey, p.DMALen, p.Payload = packet.ReadRequest, ^uint64(0)-10, 1, 4096, nil
		})},
		{21, "READ of more than 2^31", rdma(packet.ReadRequest, 1<<31+1)},
		{21, "WRITE of more than 2^31", rdma(packet.WriteFirst, 1<<31+1)},
		{22, "MIDDLE without FIRST", sequence(1024, packet.SendMiddle)},
		{22, "LAST without FIRST", sequence(64, packet.SendLast)},
		{22, "FIRST twice", sequence(1024, packet.SendFirst, packet.SendFirst)},
		{22, "ONLY inside a message", sequence(1024, packet.SendFirst, packet.SendOnly)},
		{22, "WRITE inside a SEND", sequence(1024, packet.SendFirst, packet.WriteLast)},
		{22, "READ inside a SEND", sequence(1024, packet.SendFirst, packet.ReadRequest)},
		{23, "FIRST that is too short", sequence(1020, packet.SendFirst)},
		{23, "FIRST that is too long", sequence(1028, packet.SendFirst)},
		{23, "ONLY that is too long", sequence(4096, packet.SendOnly)},
		{23, "empty LAST", func(c *peer.Conn) [][]byte {
			return append(sequence(1024, packet.SendFirst)(c), sequence(0, packet.SendLast)(c)...)
		}},
		{24, "one ahead", one(func(p *packet.Packet) { p.PSN = peer.Add(p.PSN, 1) })},
		{24, "a hundred ahead", one(func(p *packet.Packet) { p.PSN = peer.Add(p.PSN, 100) })},
		{24, "half the space ahead", one(func(p *packet.Packet) { p.PSN = peer.Add(p.PSN, 1<<23) })},
		{24, "one behind", one(func(p *packet.Packet) { p.PSN = peer.Add(p.PSN, -1) })},
		{25, "ACK of what was never sent", acknowledge(peer.ACK, 1000)},
		{25, "NAK for nothing", acknowledge(peer.NAKSequence, 0)},
		{25, "NAK of access for nothing", acknowledge(peer.NAKAccess, 0)},
		{25, "reserved syndrome", acknowledge(0x5f, 0)},
		{25, "reserved NAK", acknowledge(0x7f, 0)},
		{25, "RNR NAK for nothing", acknowledge(peer.RNR, 0)},
		{25, "READ response that nobody asked for", sequence(1024, packet.ReadResponseFirst, packet.ReadResponseMiddle, packet.ReadResponseLast)},
		{26, "SEND of 16 KiB", sequence(1024, append([]packet.Opcode{packet.SendFirst}, slices.Repeat([]packet.Opcode{packet.SendMiddle}, 15)...)...)},
		{28, "SEND of a datagram", one(func(p *packet.Packet) { p.Opcode = packet.DatagramSend })},
		{28, "CNP", one(func(p *packet.Packet) { p.Opcode, p.BECN, p.Payload = packet.CNP, true, make([]byte, 16) })},
		{29, "invalidation of a key that is none", one(func(p *packet.Packet) { p.Opcode, p.Key = packet.SendOnlyInv, 0x12345678 })},
		{29, "immediate data", one(func(p *packet.Packet) { p.Opcode = packet.SendOnlyImm })},
		{31, "two packets in one datagram", changed(true, func(b []byte) []byte { return append(b, b...) })},
		{31, "60,000 bytes", changed(false, func(b []byte) []byte { return append(b, make([]byte, 60000)...) })},
		{58, "a capsule of 63 bytes", one(func(p *packet.Packet) { p.Payload, p.Pad = p.Payload[:63], 1 })},
		{58, "an empty capsule", one(func(p *packet.Packet) { p.Payload = nil })},
	}
	for op := range 256 { // includes reserved ones and those of other transport services
		if op > 0x17 && op != int(packet.DatagramSend) && op != int(packet.CNP) {
			list = append(list, badPacket{28, fmt.Sprintf("opcode %#02x", op), one(func(p *packet.Packet) { p.Opcode = packet.Opcode(op) })})
		}
	}
	return list
}

// messages sends malformed or misplaced messages of the connection manager.
func messages(r *raid) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	e.Rate = min(r.o.rate, 5000)
	var list []func() packet.MAD
	request := func(change func(m *packet.MAD)) {
		list = append(list, func() packet.MAD {
			c := e.New()
			e.Forget(c)
			m := c.REQ(0, 32)
			change(&m)
			return m
		})
	}
	for _, f := range append(packet.Request, packet.Header...) {
		for _, v := range []uint64{0, 1, 1 << (f.Bits - 1), ^uint64(0)} {
			request(func(m *packet.MAD) { m.Set(f, v) })
		}
	}
	for i := range capsule.RequestDataSize + packet.IPHeaderSize {
		request(func(m *packet.MAD) { m.Private()[i] ^= 0xff })
	}
	request(func(m *packet.MAD) { clear(m.Private()) })
	for _, a := range []packet.Attribute{packet.MRA, packet.REJ, packet.REP, packet.RTU, packet.DREQ, packet.DREP, packet.SIDR, packet.LAP, 0, 0xffff} {
		list = append(list, func() packet.MAD { // for unknown communication IDs
			m := packet.NewMAD(a)
			for i := 24; i < len(m); i++ {
				m[i] = byte(e.Random.Uint32())
			}
			return m
		})
	}
	return cycle(r, list, func(next func() packet.MAD) error {
		m := next()
		p := m.Datagram()
		switch r.done % 16 { // now and then in a malformed packet
		case 3:
			p.Payload = p.Payload[:e.Random.IntN(len(m))&^3]
		case 7:
			p.QKey = e.Random.Uint32()
		case 11:
			p.Opcode, p.QPN = packet.SendOnly, packet.CMQPN
		}
		if err := e.Send(e.To, p); err != nil {
			return err
		}
		return e.Poll(time.Millisecond)
	})
}
