package main

import (
	"net/netip"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/peer"
)

// A malice is one way in which a hostile target misbehaves.
type malice struct {
	row   int // of test/badinput/README.md
	name  string
	does  string
	lies  bool // it falsifies data, which no host can detect
	twist func(h *hostile)
}

// responses returns a malice that changes the responses of I/O queues.
func responses(change func(q *hostileQueue, r *capsule.Completion)) func(h *hostile) {
	return func(h *hostile) {
		h.send = func(q *hostileQueue, cmd *capsule.Command, r capsule.Completion) error {
			if !q.admin && cmd.Opcode != capsule.Opcode(capsule.AdminFabrics) {
				change(q, &r)
			}
			return q.respond(r)
		}
	}
}

// identities returns a malice that overwrites Identify data from an offset on.
func identities(cns capsule.CNS, off int, bytes ...byte) func(h *hostile) {
	return func(h *hostile) {
		h.identify = func(f capsule.Identify, b []byte) {
			if f.CNS == cns {
				copy(b[off:], bytes)
			}
		}
	}
}

// commands returns a malice that handles Reads on I/O queues in place of the target.
func commands(take func(q *hostileQueue, cmd *capsule.Command) error) func(h *hostile) {
	return func(h *hostile) {
		h.command = func(q *hostileQueue, cmd *capsule.Command) (bool, error) {
			if q.admin || cmd.Opcode != capsule.Opcode(capsule.IORead) {
				return false, nil
			}
			return true, take(q, cmd)
		}
	}
}

func malices() []malice {
	private := func(off int, bytes ...byte) func(h *hostile) {
		return func(h *hostile) { h.reply = func(m *packet.MAD) { copy(m.Private()[off:], bytes) } }
	}
	reject := func(reason uint64) func(h *hostile) {
		return func(h *hostile) {
			h.request = func(m *packet.MAD, from netip.Addr) bool {
				r := packet.NewMAD(packet.REJ)
				r.Set(packet.RemoteID, m.Get(packet.LocalID))
				r.Set(packet.Transaction, m.Get(packet.Transaction))
				r.Set(packet.RejReason, reason)
				return h.endpoint.Send(from, r.Datagram()) == nil
			}
		}
	}
	twisted := func(change func(h *hostile, b []byte) []byte) func(h *hostile) {
		return func(h *hostile) {
			h.endpoint.Twist = func(b []byte) []byte { return change(h, b) }
		}
	}
	all := []malice{
		{103, "no-reply", "answers no connection request", false, func(h *hostile) { h.request = func(*packet.MAD, netip.Addr) bool { return true } }},
		{103, "no-command", "accepts the connection, and answers nothing", false, func(h *hostile) {
			h.command = func(*hostileQueue, *capsule.Command) (bool, error) { return true, nil }
		}},
		{103, "no-read", "answers everything but Reads", false, commands(func(*hostileQueue, *capsule.Command) error { return nil })},
		{103, "hang-up", "ends the connection at the first Read", false, commands(func(q *hostileQueue, _ *capsule.Command) error { return q.endpoint.Send(q.conn.To, disconnect(q.conn)) })},
		{103, "reject", "rejects with a reason that there is not", false, reject(0xeeee)},
		{100, "reject-nvme", "rejects with reason 28 and no NVMe status", false, reject(28)},
		{100, "crqsize-0", "has a receive queue of no entries", false, private(2, 0, 0)},
		{100, "recfmt", "answers in a format that there is not", false, private(0, 9, 9)},
		{100, "reply-mutated", "changes a byte of each REP", false, func(h *hostile) {
			h.reply = func(m *packet.MAD) { m[24+h.random.IntN(len(m)-24)] = byte(h.random.Uint32()) }
		}},
		{95, "other-cid", "completes commands that there are not", false, responses(func(q *hostileQueue, r *capsule.Completion) { r.CID += 77 })},
		{95, "twice", "completes each command twice", false, responses(func(q *hostileQueue, r *capsule.Completion) { _ = q.respond(*r) })},
		{100, "odd-fields", "completes with a random SQHD, SQID and result", false, responses(func(q *hostileQueue, r *capsule.Completion) {
			r.SQHD, r.SQID, r.Result = uint16(q.random.Uint32()), capsule.QID(q.random.Uint32()), q.random.Uint64()
		})},
		{100, "phase", "completes with the phase bit set, and status FFFFh", false, responses(func(q *hostileQueue, r *capsule.Completion) { r.Status = 0x7fff })},
		{95, "short-completion", "sends completions of 8 bytes", false, func(h *hostile) {
			h.send = func(q *hostileQueue, cmd *capsule.Command, r capsule.Completion) error {
				if q.admin || cmd.Opcode == capsule.Opcode(capsule.AdminFabrics) {
					return q.respond(r)
				}
				return q.conn.Post(q.conn.Message(make([]byte, 8))...)
			}
		}},
		{95, "long-completion", "sends completions of 4,096 bytes", false, commands(func(q *hostileQueue, _ *capsule.Command) error {
			return q.conn.Post(q.conn.Message(make([]byte, 4096))...)
		})},
		{96, "invalidate", "invalidates keys that there are not", false, commands(func(q *hostileQueue, cmd *capsule.Command) error {
			b := make([]byte, capsule.CompletionSize)
			(&capsule.Completion{CID: cmd.CID}).Encode(b)
			p := q.conn.Next(packet.SendOnlyInv, b)
			p.Key = 0xdeadbeef
			return q.conn.Post(p)
		})},
		{121, "no-data", "completes Reads without data", false, commands(func(q *hostileQueue, cmd *capsule.Command) error { return q.complete(cmd, 0, 0) })},
		{97, "half-data", "completes Reads with half of the data", false, func(h *hostile) { h.data = func(b []byte) []byte { return b[:len(b)/2] } }},
		{97, "more-data", "writes more than a Read asked for", false, commands(func(q *hostileQueue, cmd *capsule.Command) error {
			return q.conn.Write(cmd.SGL.Address, cmd.SGL.Key(), make([]byte, cmd.SGL.Length()+4096))
		})},
		{97, "elsewhere", "writes in front of a Read's memory", false, commands(func(q *hostileQueue, cmd *capsule.Command) error {
			return q.conn.Write(cmd.SGL.Address-4096, cmd.SGL.Key(), make([]byte, 4096))
		})},
		{98, "reads-a-read", "reads the memory of a Read", false, commands(func(q *hostileQueue, cmd *capsule.Command) error {
			return q.conn.Read(cmd.SGL.Address, cmd.SGL.Key(), int(cmd.SGL.Length()), func([]byte) error { return nil })
		})},
		{99, "too-late", "writes into the memory of a Read that is complete", false, commands(func(q *hostileQueue, cmd *capsule.Command) error {
			if q.last.Opcode == cmd.Opcode {
				_ = q.conn.Write(q.last.SGL.Address, q.last.SGL.Key(), make([]byte, 64))
			}
			return q.io(cmd)
		})},
		{97, "other-data", "gives other data than were asked for", true, func(h *hostile) { h.data = func(b []byte) []byte { clear(b); return b } }},
		{101, "no-blocks", "has a namespace of no blocks", false, identities(capsule.CNSNamespace, 0, make([]byte, 8)...)},
		{101, "2^64-blocks", "has a namespace of 2^64 - 1 blocks", false, identities(capsule.CNSNamespace, 0, 255, 255, 255, 255, 255, 255, 255, 255)},
		{101, "block-size-0", "has blocks of one byte", false, identities(capsule.CNSNamespace, 128, 0, 0, 0, 0)},
		{101, "block-size-huge", "has blocks of 2^255 bytes", false, identities(capsule.CNSNamespace, 128, 0, 0, 255, 0)},
		{101, "iosqes-255", "says that capsules have 4 GiB", false, identities(capsule.CNSController, 1792, 255, 255, 255, 255, 255, 255, 255, 255)},
		{101, "no-capsule", "says that capsules have no bytes", false, identities(capsule.CNSController, 1792, 0, 0, 0, 0, 0, 0, 0, 0)},
		{101, "mdts-255", "takes commands of 2^267 bytes", false, identities(capsule.CNSController, 77, 255)},
		{101, "maxcmd-0", "takes no commands", false, identities(capsule.CNSController, 514, 0, 0)},
		{101, "no-sgl", "takes no keyed descriptors", false, identities(capsule.CNSController, 536, 0, 0, 0, 0)},
		{101, "identify-random", "answers Identify with random bytes", true, func(h *hostile) {
			h.identify = func(_ capsule.Identify, b []byte) {
				for i := range b {
					b[i] = byte(h.random.Uint32())
				}
			}
		}},
		{122, "endless-list", "lists namespaces without end", false, func(h *hostile) {
			h.command = func(q *hostileQueue, cmd *capsule.Command) (bool, error) {
				if f := cmd.Identify(); !q.admin || cmd.Opcode != capsule.Opcode(capsule.AdminIdentify) || f.CNS != capsule.CNSActiveNamespaces {
					return false, nil
				}
				var ids []capsule.NSID
				for i := range capsule.NSID(capsule.NamespaceListEntries) {
					ids = append(ids, cmd.NSID+1+i)
				}
				b := make([]byte, capsule.NamespaceListSize)
				capsule.PutNamespaceList(b, ids)
				return true, q.give(cmd, b)
			}
		}},
		{102, "endless-log", "has 2^63 discovery records", false, discoveryHeader(func(d *capsule.DiscoveryHeader) { d.NUMREC = 1 << 63 })},
		{102, "restless-log", "changes the discovery log before each read", false, func(h *hostile) {
			n := uint64(0)
			discoveryHeader(func(d *capsule.DiscoveryHeader) { n++; d.GENCTR = n })(h)
		}},
		{101, "never-ready", "is never ready", false, func(h *hostile) {
			h.property = func(p capsule.Property, v uint64) uint64 {
				if p.Offset == uint32(capsule.PropertyCSTS) {
					return 0
				}
				return v
			}
		}},
		{101, "fatal", "is in the fatal state", false, func(h *hostile) {
			h.property = func(p capsule.Property, v uint64) uint64 {
				if p.Offset == uint32(capsule.PropertyCSTS) {
					return uint64(capsule.CSTSFatal)
				}
				return v
			}
		}},
		{101, "properties-ones", "has properties of all ones", false, func(h *hostile) { h.property = func(capsule.Property, uint64) uint64 { return ^uint64(0) } }},
		{130, "events", "has an event whenever it is asked", false, func(h *hostile) {
			h.command = func(q *hostileQueue, cmd *capsule.Command) (bool, error) {
				if !q.admin || cmd.Opcode != capsule.Opcode(capsule.AdminAsyncEvent) {
					return false, nil
				}
				return true, q.complete(cmd, uint64(capsule.AsyncEvent{Type: 2, LID: 4}.Value()), 0)
			}
		}},
		{30, "not-ready", "puts off every SEND on I/O queues by RNR NAKs", false, func(h *hostile) {
			h.command = func(q *hostileQueue, cmd *capsule.Command) (bool, error) {
				if !q.admin && cmd.Opcode != capsule.Opcode(capsule.AdminFabrics) {
					answer(putOff).on(q.conn)
				}
				return false, nil
			}
		}},
		{12, "cut", "sends half of every fourth packet", false, twisted(func(h *hostile, b []byte) []byte {
			if h.random.IntN(4) == 0 {
				return b[:len(b)/2]
			}
			return b
		})},
		{97, "mutated", "changes a byte of every second packet", true, twisted(func(h *hostile, b []byte) []byte {
			if h.random.IntN(2) == 0 {
				return change(h.random, b, 0)
			}
			return b
		})},
		{25, "naks", "sends a NAK for what has not been sent", false, func(h *hostile) {
			h.command = func(q *hostileQueue, _ *capsule.Command) (bool, error) {
				return false, q.conn.Acknowledge(q.conn.Expected, peer.NAKOperational)
			}
		}},
	}
	return all
}

func disconnect(c *peer.Conn) packet.Packet { m := c.Disconnect(); return m.Datagram() }

func discoveryHeader(change func(d *capsule.DiscoveryHeader)) func(h *hostile) {
	return func(h *hostile) {
		h.page = func(g capsule.GetLogPage, b []byte) {
			d, err := capsule.DecodeDiscoveryHeader(b)
			if g.LID != capsule.LogDiscovery || g.LPO != 0 || err != nil {
				return
			}
			change(&d)
			d.Encode(b)
		}
	}
}
