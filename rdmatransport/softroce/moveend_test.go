package softroce

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

var long = flag.Bool("long", false, "more seeds")

// inMemory runs f with a device of two shards on a network in memory.
func inMemory(t *testing.T, f func(t *testing.T, m *migrant, n *udp.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := udp.NewNetwork(1)
		c := moveCase{addr: "10.0.0.1", shards: 2}
		cfg, peers := c.configs(n)
		m := newMigrant(t, cfg, peers, nil)
		m.exchange()
		f(t, m, n)
		m.finish()
	})
}

// turn drives the shards of a device whose loops have stopped.
func turn(d *Device) {
	cs := make([]rdmatransport.Completion, 16)
	for _, s := range d.shards {
		s.Poll(cs)
		s.Flush()
	}
}

// wantEnd requires that the next completion of an end is a flushed receive.
func wantEnd(t *testing.T, e *end) {
	t.Helper()
	if c := e.want(t, 1)[0]; c.Status != rdmatransport.StatusFlushed {
		t.Errorf("%+v", c)
	}
	var err error
	e.do(func() { err = e.qp.Err() })
	if !errors.Is(err, rdmatransport.ErrDisconnected) {
		t.Errorf("ended with %v", err)
	}
}

// TestMoveOverFaults: packets that are lost or reordered during a move only cost time.
func TestMoveOverFaults(t *testing.T) {
	seeds := uint64(1)
	if *long {
		seeds = 3
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			n := udp.NewNetwork(seed)
			n.Faults = func(netip.Addr, netip.Addr) udp.Faults {
				return udp.Faults{Loss: 0.03, Duplicate: 0.02, Reorder: 0.1, Delay: 20 * time.Microsecond, Jitter: 100 * time.Microsecond}
			}
			c := moveCase{addr: "10.0.0.1", shards: 2}
			cfg, peers := c.configs(n)
			m := newMigrant(t, cfg, peers, nil)
			for range 5 {
				m.exchange()
				moved, states := m.leave()
				m.sends++
				for _, a := range m.peers {
					m.command(a)
				}
				time.Sleep(5 * time.Millisecond)
				m.arrive(moved, states)
				for i, a := range m.peers {
					m.serve(a, m.ends[i])
				}
			}
			m.finish()
		})
	}
}

// TestPeerLeavesMeanwhile: a peer that disconnects during the move gets an answer, and the queue pair ends, whether
// or not the old device has received the message.
func TestPeerLeavesMeanwhile(t *testing.T) {
	inMemory(t, func(t *testing.T, m *migrant, _ *udp.Network) { // the message is still in the socket
		moved, states := m.leave()
		a := m.peers[0]
		a.do(a.qp.Disconnect)
		wantEnd(t, a)
		m.arrive(moved, states)
		wantEnd(t, m.ends[0])
		if s := a.dev.Stats()[0].CM; s.Retransmits > 1 {
			t.Errorf("the peer repeated itself: %+v", s)
		}
		m.peers, m.ends[0], m.ends[1] = m.peers[1:], m.ends[1], m.ends[0] // the other connection continues
		m.exchange()
		m.peers, m.ends[0], m.ends[1] = append([]*end{a}, m.peers...), m.ends[1], m.ends[0]
	})
	inMemory(t, func(t *testing.T, m *migrant, _ *udp.Network) { // the old device receives the message after the export
		states, a := m.exports(), m.peers[0]
		a.do(a.qp.Disconnect)
		synctest.Wait()
		turn(m.dev)
		moved := m.give()
		m.arrive(moved, states)
		wantEnd(t, a)
		wantEnd(t, m.ends[0])
	})
}

// TestPacketsAfterExport: packets for an exported queue pair that the old device receives, or passes from shard to
// shard, move too.
func TestPacketsAfterExport(t *testing.T) {
	inMemory(t, func(t *testing.T, m *migrant, _ *udp.Network) {
		states := m.exports()
		m.sends++
		for _, a := range m.peers {
			m.command(a)
		}
		synctest.Wait()
		turn(m.dev)
		if len(m.dev.shards[0].kept)+len(m.dev.shards[1].kept) == 0 {
			t.Error("nothing is kept")
		}
		m.arrive(m.give(), states)
		for i, a := range m.peers {
			m.serve(a, m.ends[i])
			unharmed(t, "peer", a.dev, true)
		}
		unharmed(t, "moved", m.dev, true)
	})
}

// TestKeptAreBounded: a peer that keeps sending during a move cannot take more memory.
func TestKeptAreBounded(t *testing.T) {
	inMemory(t, func(t *testing.T, m *migrant, _ *udp.Network) {
		states, s := m.exports(), m.dev.shards[0]
		p := wire.Packet{Opcode: wire.RCSendOnly, PKey: wire.DefaultPKey, DestQPN: m.ends[0].qp.QPN()}
		b := append(wire.AppendHeaders(nil, &p), 0, 0, 0, 0)
		for range 2 * maxKept {
			s.handlePacket(&udp.Datagram{From: netip.MustParseAddrPort("10.0.0.2:50000"), ID: -1}, b, 0)
		}
		if len(s.kept) != maxKept || s.stats.UnknownQPN != maxKept {
			t.Errorf("%d packets are kept and %d dropped", len(s.kept), s.stats.UnknownQPN)
		}
		m.arrive(m.give(), states)
		m.exchange() // their ICRC is wrong
	})
}

// TestNotAdopted: a connection that is not adopted is ended when the device begins.
func TestNotAdopted(t *testing.T) {
	inMemory(t, func(t *testing.T, m *migrant, _ *udp.Network) {
		moved, states := m.leave()
		m.arrive(moved, states[:1])
		wantEnd(t, m.peers[1])
		m.peers[1].do(func() { m.peers[1].qp.Close() })
		all := m.peers
		m.peers = all[:1]
		m.exchange()
		m.peers = all
	})
}

// TestMoveFails: a device that has not begun sends nothing to peers, so that another one can be opened in its place,
// even if the first was moved again.
func TestMoveFails(t *testing.T) {
	inMemory(t, func(t *testing.T, m *migrant, _ *udp.Network) {
		moved, states := m.leave()
		for range 2 {
			cfg := m.cfg
			cfg.Moved = moved
			d, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			m.dev = d
			dom, err := d.NewDomain()
			if err != nil {
				t.Fatal(err)
			}
			for i, state := range states {
				cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
				if err != nil {
					t.Fatal(err)
				}
				qp, err := dom.(rdmatransport.AdoptingDomain).Adopt(rdmatransport.QPConfig{CQ: cq}, state)
				if err != nil {
					t.Fatal(err)
				}
				if err := qp.PostSend([]rdmatransport.SendWR{{Op: rdmatransport.OpSend}}); err != nil {
					t.Fatal(err)
				}
				turn(d)
				if i == 0 {
					qp.Close()
				}
			}
			turn(d)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		m.arrive(moved, states)
		m.exchange()
		for _, a := range m.peers {
			unharmed(t, "peer", a.dev, true)
		}
	})
}

// TestMoveBeforeBegin: a device that has not begun can move on.
func TestMoveBeforeBegin(t *testing.T) {
	inMemory(t, func(t *testing.T, m *migrant, _ *udp.Network) {
		moved, states := m.leave()
		m.sends++
		for _, a := range m.peers {
			m.command(a)
		}
		m.settle(moved, states)
		moved, states = m.leave()
		m.arrive(moved, states)
		for i, a := range m.peers {
			m.serve(a, m.ends[i])
		}
		unharmed(t, "moved", m.dev, true)
	})
}

// TestRequestMeanwhile: a peer that requests a connection during the move gets one, even if the old device had
// received the request.
func TestRequestMeanwhile(t *testing.T) {
	for _, taken := range []bool{true, false} {
		inMemory(t, func(t *testing.T, m *migrant, n *udp.Network) {
			l, err := m.dev.Listen(netip.AddrPortFrom(m.dev.Addr(), 4421))
			if err != nil {
				t.Fatal(err)
			}
			a := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.9"), Network: n})
			a.newQP(t)
			connected := make(chan error, 1)
			connect := func() {
				go func() {
					_, err := a.dev.Connect(t.Context(), a.qp, l.Addr(), rdmatransport.ConnParams{RetryCount: 7, RNRRetryCount: 7})
					connected <- err
				}()
				synctest.Wait()
			}
			if taken {
				connect()
			}
			moved, states := m.leave()
			if !taken {
				connect()
			}
			if _, err := l.Accept(t.Context()); !errors.Is(err, rdmatransport.ErrClosed) {
				t.Errorf("the old listener: %v", err)
			}
			if got := m.old.Stats()[0].CM.HalfOpenMoved; got != uint64(b2i(taken)) {
				t.Errorf("%d requests were dropped", got)
			}
			m.settle(moved, states)
			if l, err = m.dev.Listen(netip.AddrPortFrom(m.dev.Addr(), 4421)); err != nil {
				t.Fatal(err)
			}
			m.begin(moved)
			r, err := l.Accept(t.Context())
			if err == nil {
				err = r.Reject(nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			var reject *rdmatransport.RejectError
			if err := <-connected; !errors.As(err, &reject) {
				t.Errorf("connect: %v", err)
			}
			a.do(func() { a.qp.Close() })
			a.close()
			a.dev.Close()
		})
	}
}

// TestNumbersStayFree: a device does not assign the number of a queue pair that is still to be adopted, even if it
// draws the same random numbers as the old device.
func TestNumbersStayFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := udp.NewNetwork(1)
		c := moveCase{addr: "10.0.0.1", shards: 1}
		cfg, peers := c.configs(n)
		again := func() {
			rng := rand.NewChaCha8([32]byte{1})
			cfg.Random = func(b []byte) { rng.Read(b) }
		}
		again()
		m := newMigrant(t, cfg, peers, nil)
		moved, states := m.leave()
		again()
		m.cfg = cfg
		first := m.ends[0].qp.QPN()
		m.settle(moved, nil)
		e := m.ends[0]
		m.do(e, func() error {
			qp, err := m.dom.NewQueuePair(rdmatransport.QPConfig{CQ: e.cq})
			if err != nil {
				return err
			}
			if qp.QPN() == first {
				t.Errorf("number %#x is given again", first)
			}
			qp.Close()
			return nil
		})
		m.adopt(states)
		m.begin(moved)
		m.exchange()
		m.finish()
	})
}

// edit changes a field of a state.
func edit(t *testing.T, state []byte, field string, value any) []byte {
	t.Helper()
	var x map[string]any
	if err := json.Unmarshal(state, &x); err != nil {
		t.Fatal(err)
	}
	x[field] = value
	out, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOpenRefusesMoved: an invalid state is refused with the reason, and another device can still be opened from the
// Moved.
func TestOpenRefusesMoved(t *testing.T) {
	inMemory(t, func(t *testing.T, m *migrant, _ *udp.Network) {
		moved, states := m.leave()
		for want, change := range map[string]func(c *Config, state []byte) []byte{
			"version 9, but this program supports": func(_ *Config, s []byte) []byte { return edit(t, s, "version", 9) },
			"10.0.0.1, not 10.0.0.7":               func(c *Config, s []byte) []byte { c.Addr = netip.MustParseAddr("10.0.0.7"); return s },
			"2 shards, not 3":                      func(c *Config, s []byte) []byte { c.Shards = 3; return s },
			`provider "verbs"`:                     func(_ *Config, s []byte) []byte { return edit(t, s, "provider", "verbs") },
			"unexpected end":                       func(_ *Config, s []byte) []byte { return s[:len(s)/2] },
			"shard 7 of 2":                         func(_ *Config, s []byte) []byte { return edit(t, s, "packets", []keptPacket{{Shard: 7}}) },
			"0 ports": func(c *Config, s []byte) []byte {
				c.Shards = 0
				return edit(t, s, "sockets", udp.Moved{Transmit: 4})
			},
			"no endpoint": func(c *Config, s []byte) []byte { c.Network = udp.NewNetwork(1); return s },
		} {
			cfg := m.cfg
			cfg.Moved = &rdmatransport.Moved{State: change(&cfg, bytes.Clone(moved.State))}
			if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		m.arrive(moved, states)
		m.exchange()
	})
}

// TestAdoptRefuses does the same for queue pairs.
func TestAdoptRefuses(t *testing.T) {
	inMemory(t, func(t *testing.T, m *migrant, _ *udp.Network) {
		refused := func(e *end, state []byte, want string) {
			t.Helper()
			m.do(e, func() error {
				if _, err := m.dom.(rdmatransport.AdoptingDomain).Adopt(rdmatransport.QPConfig{CQ: e.cq}, state); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v", want, err)
				}
				return nil
			})
		}
		m.ends[0].do(func() {
			m.ends[1].do(func() { // Move requires both shards to be idle
				if _, err := m.dev.Move(); err == nil || !strings.Contains(err.Error(), "2 queue pairs") {
					t.Errorf("moved with queue pairs: %v", err)
				}
			})
		})
		m.exchange()
		refused(m.ends[0], nil, "only after the device was opened from a moved one")
		moved, states := m.leave()
		if _, err := m.dev.Move(); !errors.Is(err, rdmatransport.ErrClosed) {
			t.Errorf("moved twice: %v", err)
		}
		m.settle(moved, nil)
		s := states[0]
		rest := map[string]any{}
		for want, state := range map[string][]byte{
			"unexpected end":                       s[:len(s)/2],
			"version 3, but this program supports": edit(t, s, "version", 3),
			"is not a queue pair number":           edit(t, s, "qpn", 1),
			"belongs to completion queue":          states[1],
			"belongs to device 10.0.0.8, not":      edit(t, s, "local", "10.0.0.8:1"),
			"cannot be the peer":                   edit(t, s, "remote", "[2001:db8::1]:1"),
			"names no connection":                  edit(t, s, "id", 0),
			"path MTU":                             edit(t, s, "rc", rest),
		} {
			refused(m.ends[0], state, want)
		}
		m.adopt(states)
		refused(m.ends[0], s, "adopted already")
		m.begin(moved)
		m.exchange()
		refused(m.ends[0], s, "before it is started")
	})
}
