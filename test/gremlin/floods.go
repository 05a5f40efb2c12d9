package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/peer"
)

// floods returns attacks that send too much of something, at the rate of -rate.
func floods() []attack {
	return []attack{
		{"requests", "connection requests from one address without end", func(r *raid) error { return requestFlood(r, 1) }},
		{"requests-many", "the same from 64 addresses", func(r *raid) error { return requestFlood(r, 64) }},
		{"spoofed", "requests, RTU, DREQ and REJ in the honest host's name, with queue pairs from 1 up and identifiers that are guessed", spoofed},
		{"churn", "a host that connects, enables its controller and disconnects, again and again", churn},
		{"bad-icrc", "packets with a wrong ICRC to a queue pair that there is", func(r *raid) error {
			return packetFlood(r, func(c *peer.Conn, i int) []byte {
				b := c.E.Seal(c.E.To, valid(c).Append(nil))
				b[len(b)-1-i%4] ^= 1 << (i % 8)
				return b
			})
		}},
		{"unknown-qpn", "valid packets to queue pairs that there are not", func(r *raid) error {
			return packetFlood(r, func(c *peer.Conn, i int) []byte {
				p := valid(c)
				p.QPN = c.E.Random.Uint32() & 0xffffff
				return c.E.Seal(c.E.To, p.Append(nil))
			})
		}},
		{"duplicates", "one command, sent without end", func(r *raid) error {
			var b []byte
			return packetFlood(r, func(c *peer.Conn, i int) []byte {
				if b == nil {
					_, ps := c.Capsule(peer.Property(), nil)
					b = c.E.Seal(c.E.To, ps[0].Append(nil))
				}
				return b
			})
		}},
		{"far-ahead", "packets from far ahead in the sequence", func(r *raid) error {
			return packetFlood(r, func(c *peer.Conn, i int) []byte {
				p := valid(c)
				p.PSN = peer.Add(p.PSN, 1+c.E.Random.IntN(1<<23))
				return c.E.Seal(c.E.To, p.Append(nil))
			})
		}},
		{"read-nothing", "a host with 16 Reads of 64 KiB at a time that it acknowledges, and drops", greedy},
		{neighbourName, "no attack: a host that has the same Reads, and behaves; whatever it costs others", neighbour},
	}
}

// valid returns the next packet of a command without sending it.
func valid(c *peer.Conn) *packet.Packet {
	_, ps := c.Capsule(peer.Property(), nil)
	c.PSN = peer.Add(c.PSN, -1)
	return &ps[0]
}

func requestFlood(r *raid, addresses int) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	type source struct {
		socket *peer.Socket
		addr   netip.Addr
	}
	sources := []source{{e.Socket, e.Addr()}}
	if addresses > 1 {
		for _, a := range r.addresses.many(addresses) {
			s, err := r.forge(a)
			if err != nil {
				return err
			}
			sources = append(sources, source{s, a})
		}
	}
	e.Rate = r.o.rate
	n := 0
	return r.until(func() error {
		for range 64 {
			s := sources[n%len(sources)]
			n++
			c := e.New()
			e.Forget(c) // its answers are ignored
			m := c.REQ(0, 32)
			m.SetAddresses(netip.AddrPortFrom(s.addr, 0xc000), e.To)
			s.socket.Rate = max(1, r.o.rate/len(sources))
			if err := s.socket.Send(e.To, m.Datagram()); err != nil {
				return err
			}
		}
		return e.Poll(time.Millisecond)
	})
}

// forge opens a socket that sends from an address of this machine that is used by another process.
func (r *raid) forge(a netip.Addr) (*peer.Socket, error) {
	s, err := peer.Bind(a, 0)
	if err == nil {
		r.forged = append(r.forged, s)
	}
	return s, err
}

// spoofed sends packets in the name of the honest host. Linux numbers queue pairs upward from 17, so that their numbers
// need not be guessed.
func spoofed(r *raid) error {
	if !r.honest.IsValid() {
		return fmt.Errorf("%w: the honest host has no address of this machine", errSkipped)
	}
	s, err := r.forge(r.honest)
	if err != nil {
		return err
	}
	e, err := r.open()
	if err != nil {
		return err
	}
	s.Rate = min(r.o.rate, 2000)
	return r.until(func() error {
		for qpn := range uint32(64) {
			c := e.New()
			e.Forget(c)
			if c.QPN = qpn + 1; qpn%8 == 7 {
				c.Local = qpn // communication IDs count up too
			}
			c.Remote, c.Peer = e.Random.Uint32(), e.Random.Uint32()&0xffffff
			m := c.REQ(0, 32)
			m.SetAddresses(netip.AddrPortFrom(r.honest, 0xc000), e.To)
			rej := packet.NewMAD(packet.REJ)
			rej.Set(packet.LocalID, uint64(c.Local))
			rej.Set(packet.RemoteID, uint64(c.Remote))
			rej.Set(packet.RejReason, 4)
			for _, m := range []packet.MAD{m, c.Confirm(), c.Disconnect(), rej} {
				if err := s.Send(e.To, m.Datagram()); err != nil {
					return err
				}
			}
		}
		return e.Poll(time.Millisecond)
	})
}

func churn(r *raid) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	return r.until(func() error {
		s, err := e.Login(r.name(), 1)
		if err != nil {
			r.say("a login: %v", err)
			return tolerate(err)
		}
		r.done++
		for _, c := range append(s.IO, s.Admin) {
			if err := e.Say(c.Disconnect()); err != nil {
				return err
			}
			e.Forget(c)
		}
		return e.Poll(time.Millisecond)
	})
}

// packetFlood sends the packets that make returns for a queue pair of an association.
func packetFlood(r *raid, make func(c *peer.Conn, i int) []byte) error {
	s, err := r.login()
	if err != nil {
		return err
	}
	c := s.IO[0]
	c.E.Rate = r.o.rate
	i := 0
	return r.until(func() error {
		for range 64 {
			if err := c.E.Throw(c.E.To, make(c, i)); err != nil {
				return err
			}
			i++
		}
		return c.E.Poll(time.Millisecond)
	})
}

// greedy keeps as many reads outstanding as a host is allowed.
func greedy(r *raid) error {
	s, err := r.login()
	if err != nil {
		return err
	}
	c := s.IO[0]
	return r.until(func() error {
		for len(c.Responses) > 0 {
			for id := range c.Responses {
				delete(c.Responses, id)
				r.done--
			}
		}
		for r.done < 16 && !c.Gone {
			_, ps := c.Capsule(r.transfer(capsule.IORead, r.done%16*64<<10, 64<<10), nil)
			if err := c.Post(ps...); err != nil {
				return err
			}
			r.done++
		}
		return c.E.Poll(time.Millisecond)
	})
}

// neighbourName is the row with which the row read-nothing is to be compared on a machine with few processors. There,
// two hosts and a target leave each other less than half.
const neighbourName = "neighbour"

// neighbour runs a second honest host. It has the attacker's priority, because the attacker starts it.
func neighbour(r *raid) (err error) {
	b, err := openBeside(r.ctx, r.o.setting(neighbourFrom))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if _, err := b.ask(question{Do: doHonest, Honest: neighbourKind}); err != nil {
		return err
	}
	if err := wait(r.ctx, time.Until(r.end)); err != nil {
		return err
	}
	w, err := b.ask(question{Do: doWindow})
	r.say("it had %.0f operations of %d KiB a second, p99 %v", w.Sample.Rate, neighbourSize>>10, w.Sample.P99)
	return err
}
