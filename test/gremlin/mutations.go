package main

import (
	"math/rand/v2"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/peer"
)

// mutations returns attacks that change valid traffic. The same seed makes the same changes.
func mutations() []attack {
	return []attack{
		{"mutate-packets", "packets of an association with 1 to 8 bytes changed, cut, or added to, most with a right ICRC", func(r *raid) error {
			return mutate(r, func(s *peer.Session) error {
				c := s.IO[0]
				_, ps := c.Capsule(r.likely(), make([]byte, r.random.IntN(2)*4096))
				for i := range ps {
					b := ps[i].Append(nil)
					if b = change(r.random, b, 0); r.random.IntN(8) == 0 {
						b = change(r.random, c.E.Seal(c.E.To, b), 0)
					} else {
						b = c.E.Seal(c.E.To, b)
					}
					if err := c.E.Throw(c.E.To, b); err != nil {
						return err
					}
				}
				return nil
			})
		}},
		{"mutate-capsules", "commands with 1 to 8 bytes changed behind the opcode and identifier, in valid packets", func(r *raid) error {
			return mutate(r, func(s *peer.Session) error {
				c := append(s.IO, s.Admin)[r.random.IntN(2)]
				cmd := r.likely()
				if c == s.Admin {
					cmd = r.likelyAdmin()
				}
				b := make([]byte, capsule.CommandSize, 8192)
				cmd.CID = capsule.CID(r.random.Uint32())
				cmd.Encode(b)
				b = change(r.random, append(b, make([]byte, r.random.IntN(2)*4096)...), 4)
				return c.Post(c.Message(b)...)
			})
		}},
		{"mutate-messages", "REQ, REP, RTU, REJ, MRA, DREQ of an association with some fields or bytes changed", mutateMessages},
	}
}

// likely returns a plausible command of an I/O queue, likelyAdmin one of the admin queue.
func (r *raid) likely() capsule.Command {
	ops := []capsule.IOOpcode{capsule.IORead, capsule.IOWrite, capsule.IOFlush, capsule.IOCompare, capsule.IOWriteZeroes, capsule.IODatasetManagement,
		capsule.IOVerify, capsule.IOCopy, capsule.IOReservationRegister, capsule.IOReservationReport}
	cmd := r.transfer(ops[r.random.IntN(len(ops))], 0, 4096)
	if r.random.IntN(2) == 0 {
		cmd.SGL = capsule.InCapsuleSGL(0, 4096)
	}
	return cmd
}

func (r *raid) likelyAdmin() capsule.Command {
	ops := []capsule.AdminOpcode{capsule.AdminIdentify, capsule.AdminGetLogPage, capsule.AdminGetFeatures, capsule.AdminSetFeatures,
		capsule.AdminAbort, capsule.AdminAsyncEvent, capsule.AdminKeepAlive, capsule.AdminFabrics}
	cmd := capsule.Command{Opcode: capsule.Opcode(ops[r.random.IntN(len(ops))]), NSID: 1, Flags: capsule.FlagsSGL, SGL: peer.Keyed(4096)}
	cmd.CDW10 = r.random.Uint32() >> r.random.IntN(32)
	return cmd
}

// change changes some bytes from an offset on, and now and then the length.
func change(rng *rand.Rand, b []byte, from int) []byte {
	for range 1 + rng.IntN(8) {
		if len(b) <= from {
			return b
		}
		at := from + rng.IntN(len(b)-from)
		if rng.IntN(2) == 0 && from < 64 { // prefer the headers
			at = min(len(b)-1, from+rng.IntN(64))
		}
		switch rng.IntN(6) {
		case 0, 1:
			b[at] ^= 1 << rng.IntN(8)
		case 2:
			b[at] = byte(rng.Uint32())
		case 3:
			b[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[rng.IntN(5)]
		case 4:
			if rng.IntN(4) == 0 {
				b = b[:at]
			}
		case 5:
			if rng.IntN(4) == 0 {
				b = append(b, make([]byte, 4*rng.IntN(64))...)
			}
		}
	}
	return b
}

// mutate sends a round of mutated packets on each new association, until the target ends it.
func mutate(r *raid, send func(s *peer.Session) error) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	e.Timeout, e.Rate = time.Second, min(r.o.rate, 5000)
	err = r.until(func() error {
		s, err := e.Login(r.name(), 1)
		if err != nil {
			r.say("a login: %v", err)
			return tolerate(err)
		}
		for range 32 {
			if r.over() || s.IO[0].Gone || s.Admin.Gone {
				break
			}
			r.done++
			if err := send(&s); err != nil {
				return err
			}
			if err := e.Poll(time.Millisecond); err != nil {
				return err
			}
		}
		return e.Leave()
	})
	r.say("%d mutations", r.done)
	return err
}

func mutateMessages(r *raid) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	e.Timeout, e.Rate = time.Second, min(r.o.rate, 5000)
	err = r.until(func() error {
		c := e.New()
		req := c.REQ(capsule.QID(r.random.IntN(2)), 32)
		answer := packet.NewMAD([]packet.Attribute{packet.REJ, packet.MRA, packet.REP, packet.DREP}[r.random.IntN(4)])
		answer.Set(packet.LocalID, uint64(c.Local))
		for _, m := range []packet.MAD{req, answer, c.Confirm(), c.Disconnect()} {
			m.Set(packet.RemoteID, uint64(c.Remote))
			if m.Attribute() == packet.REQ {
				m.Set(packet.RemoteID, 0) // reserved in a REQ
			}
			for range r.random.IntN(3) {
				if fields := append(packet.Header, packet.Request...); r.random.IntN(2) == 0 {
					m.Set(fields[r.random.IntN(len(fields))], r.random.Uint64()>>r.random.IntN(64))
				} else {
					m[r.random.IntN(len(m))] = byte(r.random.Uint32())
				}
			}
			r.done++
			if err := e.Say(m); err != nil {
				return err
			}
			if err := e.Poll(time.Millisecond); err != nil {
				return err
			}
		}
		return e.Leave()
	})
	r.say("%d messages", r.done)
	return err
}
