package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/peer"
)

// sharing returns attacks by peers that take resources that others need.
func sharing() []attack {
	return []attack{
		{"log-pages", "4 discovery connections ask for 30 log pages of 1 MiB each, and put the data off by RNR NAKs", func(r *raid) error { return logPages(r, putOff) }},
		{"log-pages-silent", "the same, never acknowledged", func(r *raid) error { return logPages(r, ignore) }},
		{"reads", "16 Reads of what others write, 1 MiB, whose data are never acknowledged", func(r *raid) error { return reads(r, ignore) }},
		{"reads-put-off", "the same, put off by RNR NAKs", func(r *raid) error { return reads(r, putOff) }},
		{"writes", "3 hosts with 16 Writes of 16 KiB each, whose data are put off by RNR NAKs", func(r *raid) error { return writes(r, putOffReads) }},
		{"writes-dribbled", "the same, of which one packet comes for each request", func(r *raid) error { return writes(r, dribble) }},
		{"deallocate", "16 times at a time: deallocate, 256 times, the MiB that others read and write", deallocate},
		{"connect-data", "200 Connect commands of strangers, whose data are put off", connectData},
		{"silent", "256 connections that never send a command", func(r *raid) error { return requests(r, 1, 256, true) }},
		{"half-open", "1,280 requests that nothing follows", func(r *raid) error { return requests(r, 1, 1280, false) }},
		{"controllers", "controllers with KATO 0, as many as there are, under one name", func(r *raid) error { return controllers(r, false, false) }},
		{"controllers-names", "the same, each under another name", func(r *raid) error { return controllers(r, true, false) }},
		{"discovery", "discovery controllers, as many as there are", func(r *raid) error { return controllers(r, true, true) }},
	}
}

// An answer handles a packet that a queue pair received.
type answer func(c *peer.Conn, p *packet.Packet) error

const soon = 1 // RNR timer: 10 µs

// ignore handles acknowledgements and answers no request.
func ignore(c *peer.Conn, p *packet.Packet) error {
	if p.Opcode == packet.Acknowledge {
		return c.Behave(p)
	}
	return nil
}

// putOff answers every request with an RNR NAK, so that it is sent again.
func putOff(c *peer.Conn, p *packet.Packet) error {
	if p.Opcode == packet.Acknowledge {
		return c.Behave(p)
	}
	if p.PSN != c.Expected { // only the first of the packets in flight is answered
		return nil
	}
	return c.Acknowledge(p.PSN, peer.RNR|soon)
}

// putOffReads accepts what is sent, and answers RDMA READ requests with RNR NAKs.
func putOffReads(c *peer.Conn, p *packet.Packet) error {
	if p.Opcode == packet.ReadRequest {
		return putOff(c, p)
	}
	return c.Behave(p)
}

// dribble answers each RDMA READ request with one packet of data.
func dribble(c *peer.Conn, p *packet.Packet) error {
	if p.Opcode == packet.ReadRequest {
		return c.Supply(p, 1)
	}
	return c.Behave(p)
}

func (a answer) on(c *peer.Conn) { c.Answer = func(p *packet.Packet) error { return a(c, p) } }

// keep serves the queue pairs of e until the target has ended all of them, then calls begin again, for the time of the
// raid.
func keep(r *raid, e *peer.Endpoint, begin func() error) error {
	return r.until(func() error {
		if err := e.Poll(50 * time.Millisecond); err != nil {
			return err
		}
		for _, c := range e.Conns() {
			if !c.Gone {
				return nil
			}
		}
		return begin()
	})
}

// tolerate returns nil for errors that are answers of the target, so that the attack continues.
func tolerate(err error) error {
	var refused *peer.RefusedError
	var status *peer.StatusError
	if errors.As(err, &refused) || errors.As(err, &status) || errors.Is(err, peer.ErrSilent) || err != nil && err.Error() == "connection ended" {
		return nil
	}
	return err
}

func logPages(r *raid, a answer) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	begin := func() error {
		for range 4 {
			s, err := e.Login(r.stranger(), 0)
			if err != nil {
				r.say("a connection: %v", err)
				return tolerate(err)
			}
			if _, err := s.Admin.Do(peer.Enable(), nil); err != nil {
				return tolerate(err)
			}
			a.on(s.Admin)
			for range 30 {
				cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminGetLogPage), Flags: capsule.FlagsSGL, SGL: peer.Keyed(1 << 20)}
				capsule.GetLogPage{LID: capsule.LogDiscovery, Length: 1 << 20}.Put(&cmd)
				_, ps := s.Admin.Capsule(cmd, nil)
				if err := s.Admin.Post(ps...); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := begin(); err != nil {
		return err
	}
	return keep(r, e, begin)
}

// transfers sends 16 commands on one I/O queue of each of several hosts.
func transfers(r *raid, hosts int, a answer, command func(i int) capsule.Command) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	begin := func() error {
		for range hosts {
			s, err := e.Login(r.name(), 1)
			if err != nil {
				r.say("a login: %v", err)
				return tolerate(err)
			}
			a.on(s.IO[0])
			for i := range 16 {
				_, ps := s.IO[0].Capsule(command(i), nil)
				if err := s.IO[0].Post(ps...); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := begin(); err != nil {
		return err
	}
	return keep(r, e, begin)
}

func reads(r *raid, a answer) error {
	return transfers(r, 1, a, func(i int) capsule.Command {
		return r.transfer(capsule.IORead, i*64<<10, 64<<10)
	})
}

func writes(r *raid, a answer) error {
	return transfers(r, 3, a, func(i int) capsule.Command {
		return r.transfer(capsule.IOWrite, i*16<<10, 16<<10)
	})
}

// deallocate keeps 16 valid commands outstanding. Each deallocates, in 256 ranges, the blocks that the honest host
// uses.
func deallocate(r *raid) error {
	s, err := r.login()
	if err != nil {
		return err
	}
	c, ranges := s.IO[0], make([]byte, 256*capsule.DSMRangeSize)
	for i := range 256 {
		capsule.DSMRange{Blocks: uint32(region / r.blockSize)}.Encode(ranges[i*capsule.DSMRangeSize:])
	}
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IODatasetManagement), NSID: 1, Flags: capsule.FlagsSGL, SGL: capsule.InCapsuleSGL(0, uint32(len(ranges)))}
	capsule.DatasetManagement{Ranges: 256, Deallocate: true}.Put(&cmd)
	waiting, answered := 0, 0
	err = r.until(func() error {
		for ; waiting < 16 && !c.Gone; waiting++ {
			_, ps := c.Capsule(cmd, ranges)
			if err := c.Post(ps...); err != nil {
				return err
			}
		}
		err := c.E.Until(r.sooner(time.Now().Add(50*time.Millisecond)), func() bool { return len(c.Responses) > 0 })
		if len(c.Responses) == 0 && err == nil {
			err = c.Resend()
		}
		waiting, answered = waiting-len(c.Responses), answered+len(c.Responses)
		clear(c.Responses)
		return err
	})
	r.say("%d commands", answered)
	return err
}

// transfer returns a command for n bytes at offset off of the namespace.
func (r *raid) transfer(op capsule.IOOpcode, off, n int) capsule.Command {
	return peer.ReadWrite(op, capsule.LBA(off/r.blockSize), n/r.blockSize, r.blockSize)
}

func connectData(r *raid) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	begin := func() error {
		for range 200 {
			c := e.New()
			if err := c.Dial(c.REQ(0, 32)); err != nil {
				return tolerate(err)
			}
			answer(putOffReads).on(c)
			cmd, _ := r.name().ConnectCommand(0, capsule.ControllerIDDynamic, 32)
			cmd.SGL = peer.Keyed(capsule.ConnectDataSize)
			_, ps := c.Capsule(cmd, nil)
			if err := c.Post(ps...); err != nil {
				return err
			}
			if r.over() {
				return nil
			}
		}
		return nil
	}
	if err := begin(); err != nil {
		return err
	}
	return keep(r, e, begin)
}

// requests sends n connection requests from some addresses each second. It confirms the connections if established is
// true, and otherwise sends nothing more.
func requests(r *raid, addresses, n int, established bool) error {
	var es []*peer.Endpoint
	for range addresses {
		e, err := r.open()
		if err != nil {
			return err
		}
		e.Rate = r.o.rate
		es = append(es, e)
	}
	return r.until(func() error {
		began := time.Now()
		for i := range n {
			e := es[i%len(es)]
			c := e.New()
			c.Silent = !established
			if err := e.Say(c.REQ(0, 32)); err != nil {
				return err
			}
			if i%64 == 0 {
				if err := e.Poll(time.Millisecond); err != nil {
					return err
				}
			}
		}
		for _, e := range es {
			if err := e.Until(r.sooner(began.Add(time.Second)), func() bool { return false }); err != nil {
				return err
			}
		}
		granted := 0
		for _, e := range es {
			for _, c := range e.Conns() {
				if c.Remote != 0 {
					granted++
				}
			}
		}
		r.done = granted
		return nil
	})
}

// controllers creates controllers as fast as it can: of one host, of many hosts or of discovery.
func controllers(r *raid, names, discovery bool) error {
	e, err := r.open()
	if err != nil {
		return err
	}
	e.Timeout = time.Second
	name, n, refused := r.name(), 0, ""
	err = r.until(func() error {
		if names {
			name = r.name()
		}
		name.KATO = 0
		if discovery {
			name.Subsystem = capsule.DiscoveryNQN
		}
		if _, _, err := e.Queue(name, 0, capsule.ControllerIDDynamic, 32); err != nil {
			refused = err.Error()
			if err := tolerate(err); err != nil {
				return err
			}
			return e.Poll(10 * time.Millisecond)
		}
		n++
		return nil
	})
	r.say("%d controllers; then: %s", n, fmt.Sprint(refused))
	return err
}
