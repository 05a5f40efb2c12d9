package main

import (
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/peer"
)

// A badCommand is a command and the number of bytes of data in its capsule.
type badCommand struct {
	row  int // of the catalogue
	name string
	io   bool
	data int
	make func(r *raid) capsule.Command
}

// described returns a read or write of the first blocks with the given SGL descriptor.
func described(op capsule.IOOpcode, sgl capsule.SGL) func(r *raid) capsule.Command {
	return func(r *raid) capsule.Command {
		cmd := r.transfer(op, 0, 4096)
		cmd.SGL = sgl
		return cmd
	}
}

// descriptor returns an SGL descriptor of any 16 bytes: an address, a length with the rest, and the type.
func descriptor(address, rest uint64, kind byte) capsule.SGL {
	b := make([]byte, 16)
	for i := range 8 {
		b[i], b[8+i] = byte(address>>(8*i)), byte(rest>>(8*i))
	}
	b[15] = kind
	s, _ := capsule.DecodeSGL(b)
	return s
}

// admin returns an admin command that transfers n bytes of the host's memory.
func admin(op capsule.AdminOpcode, n int, put func(c *capsule.Command)) func(r *raid) capsule.Command {
	return func(*raid) capsule.Command {
		cmd := capsule.Command{Opcode: capsule.Opcode(op), Flags: capsule.FlagsSGL, SGL: peer.Keyed(n)}
		put(&cmd)
		return cmd
	}
}

func badCommands() []badCommand {
	const write, read = capsule.IOWrite, capsule.IORead
	blocks := func(op capsule.IOOpcode, first capsule.LBA, n uint32) func(r *raid) capsule.Command {
		return func(r *raid) capsule.Command {
			cmd := r.transfer(op, 0, 4096)
			capsule.ReadWrite{SLBA: first, Blocks: n}.Put(&cmd)
			return cmd
		}
	}
	page := func(g capsule.GetLogPage, n int) func(r *raid) capsule.Command {
		return admin(capsule.AdminGetLogPage, n, g.Put)
	}
	identify := func(i capsule.Identify, id capsule.NSID, n int) func(r *raid) capsule.Command {
		return admin(capsule.AdminIdentify, n, func(c *capsule.Command) { i.Put(c); c.NSID = id })
	}
	property := func(kind capsule.FabricsType, p capsule.Property) func(r *raid) capsule.Command {
		return func(*raid) capsule.Command {
			cmd := capsule.FabricsCommand(kind)
			p.Put(&cmd)
			return cmd
		}
	}
	return []badCommand{
		{47, "offset behind the capsule", true, 4096, described(write, capsule.InCapsuleSGL(4097, 4096))},
		{48, "offset and length that wrap", true, 4096, described(write, capsule.InCapsuleSGL(1<<64-1, 4096))},
		{48, "length FFFFFFFFh", true, 4096, described(write, capsule.InCapsuleSGL(0, 0xffffffff))},
		{49, "more than arrived", true, 100, described(write, capsule.InCapsuleSGL(0, 4096))},
		{49, "nothing arrived", true, 0, described(write, capsule.InCapsuleSGL(0, 4096))},
		{50, "offset that is not 0", true, 4096, described(write, capsule.InCapsuleSGL(8, 4088))},
		{51, "16 MiB - 1", true, 0, described(read, capsule.KeyedSGL(peer.MemoryVA, 1<<24-1, 1, false))},
		{52, "bit bucket", true, 0, described(read, descriptor(0, 4096, 0x10))},
		{52, "segment", true, 0, described(read, descriptor(0, 16, 0x20))},
		{52, "transport", true, 0, described(read, descriptor(0, 4096, 0x50))},
		{52, "of the vendor", true, 0, described(read, descriptor(0, 4096, 0xf0))},
		{52, "keyed, reserved subtype", true, 0, described(read, descriptor(0, 4096, 0x43))},
		{53, "length 0", true, 0, described(read, descriptor(0, 0, 0x40))},
		{54, "list that was cut short", true, 31, described(write, capsule.LastSegmentSGL(0, 32))},
		{54, "list of 4096 descriptors", true, 4096, described(write, capsule.LastSegmentSGL(0, 65536))},
		{54, "list of 24 bytes", true, 4096, described(write, capsule.LastSegmentSGL(0, 24))},
		{54, "list of lists", true, 256, func(r *raid) capsule.Command {
			cmd := r.transfer(write, 0, 4096)
			cmd.SGL = capsule.LastSegmentSGL(0, 256)
			return cmd
		}},
		{55, "PRP", true, 0, func(r *raid) capsule.Command { c := r.transfer(read, 0, 4096); c.Flags = 0; return c }},
		{55, "reserved PSDT", true, 0, func(r *raid) capsule.Command { c := r.transfer(read, 0, 4096); c.Flags = 0xc0; return c }},
		{56, "data in the capsule for a Read", true, 4096, described(read, capsule.InCapsuleSGL(0, 4096))},
		{57, "a key that is none", true, 0, described(write, capsule.KeyedSGL(0, 4096, 0xdead, true))},
		{60, "invalidation of a key that is none", true, 0, described(read, capsule.KeyedSGL(0, 4096, 0xdead, true))},
		{64, "first of a fused pair", true, 0, func(r *raid) capsule.Command { c := r.transfer(capsule.IOCompare, 0, 4096); c.Flags |= 1; return c }},
		{64, "second of a fused pair", true, 0, func(r *raid) capsule.Command { c := r.transfer(write, 0, 4096); c.Flags |= 2; return c }},
		{64, "both at once", true, 0, func(r *raid) capsule.Command { c := r.transfer(write, 0, 4096); c.Flags |= 3; return c }},
		{74, "behind the end", true, 0, blocks(read, 1<<62, 1)},
		{74, "blocks that wrap", true, 0, blocks(read, 1<<64-1, 8)},
		{74, "65,536 blocks", true, 0, blocks(write, 0, 65536)},
		{75, "NSID 0", true, 0, func(r *raid) capsule.Command { c := r.transfer(read, 0, 4096); c.NSID = 0; return c }},
		{75, "NSID FFFFFFFFh", true, 0, func(r *raid) capsule.Command { c := r.transfer(read, 0, 4096); c.NSID = 0xffffffff; return c }},
		{77, "256 ranges in 16 bytes", true, 16, func(r *raid) capsule.Command {
			c := r.transfer(capsule.IODatasetManagement, 0, 4096)
			c.SGL, c.CDW10, c.CDW11 = capsule.InCapsuleSGL(0, 16), 255, 4
			return c
		}},
		{77, "Write Zeroes of all that there is", true, 0, blocks(capsule.IOWriteZeroes, 1<<40, 65536)},
		{83, "protection information", true, 0, func(r *raid) capsule.Command {
			c := r.transfer(read, 0, 4096)
			c.CDW12 |= 0xf << 26
			return c
		}},
		{85, "reservation without a key", true, 16, func(r *raid) capsule.Command {
			c := r.transfer(capsule.IOReservationAcquire, 0, 4096)
			c.SGL, c.CDW10 = capsule.InCapsuleSGL(0, 16), 0x0700
			return c
		}},
		{37, "Connect twice", false, 1024, func(r *raid) capsule.Command {
			c, _ := r.name().ConnectCommand(0, capsule.ControllerIDDynamic, 32)
			return c
		}},
		{45, "property that there is not", false, 0, property(capsule.FabricsPropertyGet, capsule.Property{Size: 8, Offset: 0xfffffff8})},
		{45, "Set of CAP", false, 0, property(capsule.FabricsPropertySet, capsule.Property{Size: 8, Value: ^uint64(0)})},
		{45, "CC of all ones", false, 0, property(capsule.FabricsPropertySet, capsule.Property{Size: 4, Offset: 0x14, Value: 0xffffffff})},
		{70, "NSSR", false, 0, property(capsule.FabricsPropertySet, capsule.Property{Size: 4, Offset: 0x20, Value: uint64(capsule.NSSRReset)})},
		{46, "unknown FCTYPE", false, 0, func(*raid) capsule.Command { return capsule.FabricsCommand(0xee) }},
		{46, "Disconnect on the admin queue", false, 0, func(*raid) capsule.Command { return capsule.FabricsCommand(capsule.FabricsDisconnect) }},
		{86, "log page of all ones", false, 0, page(capsule.GetLogPage{LID: 2, Length: 16 << 30, LPO: ^uint64(3)}, 4096)},
		{86, "log page from an odd offset", false, 0, page(capsule.GetLogPage{LID: 1, Length: 64, LPO: 1}, 64)},
		{88, "log page that there is not", false, 0, page(capsule.GetLogPage{LID: 0xee, Length: 512}, 512)},
		{89, "unknown CNS", false, 0, identify(capsule.Identify{CNS: 0xee}, 0, 4096)},
		{89, "Identify of NSID FFFFFFFFh", false, 0, identify(capsule.Identify{CNS: capsule.CNSNamespace}, 0xffffffff, 4096)},
		{89, "Identify into 8 bytes", false, 0, identify(capsule.Identify{CNS: capsule.CNSController}, 0, 8)},
		{90, "65,535 queues", false, 0, admin(capsule.AdminSetFeatures, 0, func(c *capsule.Command) {
			capsule.SetFeatures{FID: capsule.FeatureNumberOfQueues, Value: 0xffffffff}.Put(c)
		})},
		{90, "KATO FFFFFFFFh", false, 0, admin(capsule.AdminSetFeatures, 0, func(c *capsule.Command) { capsule.SetFeatures{FID: 0xf, Value: 0xffffffff}.Put(c) })},
		{104, "Authentication Send of 4 GiB", false, 0, func(*raid) capsule.Command {
			c := capsule.FabricsCommand(capsule.FabricsAuthSend)
			capsule.Auth{SPSP0: 1, SPSP1: 1, SECP: capsule.SecurityProtocol, Length: 0xffffffff}.Put(&c)
			c.SGL = peer.Keyed(1 << 20)
			return c
		}},
	}
}

// opcodes sends every opcode with random fields and a data descriptor of the host's memory.
func opcodes(r *raid) error {
	var all []int
	for op := range 512 {
		all = append(all, op)
	}
	return each(r, all, func(s *peer.Session, op int) error {
		c := append(s.IO, s.Admin)[op/256]
		cmd := capsule.Command{Opcode: capsule.Opcode(op), Flags: capsule.FlagsSGL, NSID: 1, SGL: peer.Keyed(4096)}
		for _, dw := range []*uint32{&cmd.CDW10, &cmd.CDW11, &cmd.CDW12, &cmd.CDW13, &cmd.CDW14, &cmd.CDW15} {
			if *dw = r.random.Uint32(); r.random.IntN(2) == 0 {
				*dw &= 0xff
			}
		}
		_, ps := c.Capsule(cmd, nil)
		return c.Post(ps...)
	})
}

// An order is a command or message that arrives at the wrong time.
type order struct {
	row  int // of the catalogue
	name string
	act  func(r *raid, e *peer.Endpoint) error
}

func orders() []order {
	return []order{
		{33, "a command before Connect", func(r *raid, e *peer.Endpoint) error {
			c := e.New()
			if err := c.Dial(c.REQ(0, 32)); err != nil {
				return err
			}
			_, err := c.Do(peer.Property(), nil)
			return err
		}},
		{3, "an I/O queue without a controller", func(r *raid, e *peer.Endpoint) error {
			_, _, err := e.Queue(r.name(), 1, 0x1234, 32)
			return err
		}},
		{40, "an I/O queue before the controller is enabled", func(r *raid, e *peer.Endpoint) error {
			n := r.name()
			_, id, err := e.Queue(n, 0, capsule.ControllerIDDynamic, 32)
			if err == nil {
				_, _, err = e.Queue(n, 1, id, 32)
			}
			return err
		}},
		{73, "an admin command before the controller is enabled", func(r *raid, e *peer.Endpoint) error {
			c, _, err := e.Queue(r.name(), 0, capsule.ControllerIDDynamic, 32)
			if err == nil {
				_, err = c.Do(capsule.Command{Opcode: capsule.Opcode(capsule.AdminIdentify), Flags: capsule.FlagsSGL, SGL: peer.Keyed(4096), CDW10: 1}, nil)
			}
			return err
		}},
		{37, "the same I/O queue twice", func(r *raid, e *peer.Endpoint) error {
			n := r.name()
			s, err := e.Login(n, 1)
			if err == nil {
				_, _, err = e.Queue(n, 1, s.ID, 32)
			}
			return err
		}},
		{39, "an I/O queue of another host's controller", func(r *raid, e *peer.Endpoint) error {
			s, err := e.Login(r.name(), 1)
			if err == nil {
				_, _, err = e.Queue(r.name(), 2, s.ID, 32)
			}
			return err
		}},
		{70, "resets with commands in flight", func(r *raid, e *peer.Endpoint) error {
			s, err := e.Login(r.name(), 1)
			if err != nil {
				return err
			}
			for i := range 16 {
				_, ps := s.IO[0].Capsule(r.transfer(capsule.IOWrite, i*16<<10, 16<<10), nil)
				if err := s.IO[0].Post(ps...); err != nil {
					return err
				}
			}
			off := capsule.FabricsCommand(capsule.FabricsPropertySet)
			capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: 0x460060}.Put(&off)
			_, err = s.Admin.Do(off, nil)
			return err
		}},
		{71, "the admin queue ends, with Reads in flight", func(r *raid, e *peer.Endpoint) error {
			s, err := e.Login(r.name(), 1)
			if err != nil {
				return err
			}
			for i := range 16 {
				_, ps := s.IO[0].Capsule(r.transfer(capsule.IORead, i*64<<10, 64<<10), nil)
				if err := s.IO[0].Post(ps...); err != nil {
					return err
				}
			}
			return e.Say(s.Admin.Disconnect())
		}},
		{8, "the same REQ three times, and its RTU before the REP", func(r *raid, e *peer.Endpoint) error {
			c := e.New()
			m := c.REQ(0, 32)
			if err := e.Say(m, m, c.Confirm(), m); err != nil {
				return err
			}
			return e.Poll(20 * time.Millisecond)
		}},
		{9, "DREQ before the RTU, and twice", func(r *raid, e *peer.Endpoint) error {
			c := e.New()
			c.Silent = true
			if err := c.Dial(c.REQ(0, 32)); err != nil {
				return err
			}
			return e.Say(c.Disconnect(), c.Disconnect(), c.Confirm())
		}},
		{63, "300 commands on a queue of 32", func(r *raid, e *peer.Endpoint) error {
			s, err := e.Login(r.name(), 1)
			if err != nil {
				return err
			}
			for range 300 {
				_, ps := s.IO[0].Capsule(r.transfer(capsule.IORead, 0, 4096), nil)
				if err := e.Send(e.To, ps...); err != nil {
					return err
				}
			}
			return e.Poll(20 * time.Millisecond)
		}},
		{66, "200 Asynchronous Event Requests", func(r *raid, e *peer.Endpoint) error {
			s, err := e.Login(r.name(), 1)
			if err != nil {
				return err
			}
			for range 200 {
				_, ps := s.Admin.Capsule(capsule.Command{Opcode: capsule.Opcode(capsule.AdminAsyncEvent), Flags: capsule.FlagsSGL, SGL: peer.Keyed(0)}, nil)
				if err := e.Send(e.To, ps...); err != nil {
					return err
				}
			}
			return e.Poll(20 * time.Millisecond)
		}},
	}
}
