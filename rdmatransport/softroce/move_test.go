package softroce

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
)

// A migrant is a device that moves from one Device to the next, as it would from process to process. It has one
// connection on each shard. Their peers are ordinary devices, which must not notice the move.
type migrant struct {
	t     *testing.T
	cfg   Config
	dev   *Device
	dom   rdmatransport.Domain
	ends  []*end // this side of the connections
	peers []*end
	noRemote,
	shared, active bool // active: this side has connected to the peers
	srqs  []rdmatransport.SharedReceiveQueue
	sends byte // number of messages exchanged on each connection
	old   *Device
}

func newMigrant(t *testing.T, cfg Config, peers []Config, change func(*migrant)) *migrant {
	t.Helper()
	dev, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := &migrant{t: t, cfg: cfg, dev: dev}
	if change != nil {
		change(m)
	}
	if m.dom, err = dev.NewDomain(); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Shards {
		e := &end{dev: dev, loop: newLoop(t, dev), dom: m.dom}
		m.ends = append(m.ends, e)
		m.equip(i, make([]byte, 1<<20))
	}
	for i, p := range peers {
		a := newEnd(t, p)
		m.peers = append(m.peers, a)
		m.join(a, m.ends[i], m.config(i))
	}
	return m
}

// equip registers memory for a shard and posts its shared receives.
func (m *migrant) equip(i int, mem []byte) {
	m.t.Helper()
	e := m.ends[i]
	var err error
	if e.mr, err = m.dom.Register(mem, rdmatransport.AccessLocalWrite); err != nil {
		m.t.Fatal(err)
	}
	if !m.shared {
		return
	}
	m.do(e, func() error {
		srq, err := m.dom.NewSharedReceiveQueue(rdmatransport.SRQConfig{CQ: e.cq})
		m.srqs = append(m.srqs, srq)
		if err != nil {
			return err
		}
		return srq.PostRecv([]rdmatransport.RecvWR{{ID: 1, SGL: e.sge(0, 4096)}})
	})
}

func (m *migrant) config(i int) rdmatransport.QPConfig {
	c := rdmatransport.QPConfig{CQ: m.ends[i].cq, NoRemote: m.noRemote}
	if m.shared {
		c.SharedRecv, c.EndID = m.srqs[i], 99
	}
	return c
}

// do runs f on the loop of an end.
func (m *migrant) do(e *end, f func() error) {
	m.t.Helper()
	var err error
	e.do(func() { err = f() })
	if err != nil {
		m.t.Fatal(err)
	}
}

// join connects a peer to one end.
func (m *migrant) join(a, b *end, cfg rdmatransport.QPConfig) {
	m.t.Helper()
	a.newQP(m.t)
	m.do(b, func() (err error) {
		if b.qp, err = m.dom.NewQueuePair(cfg); err == nil {
			err = m.receive(b)
		}
		return err
	})
	from, to := a, b
	if m.active {
		from, to = b, a
	}
	l, err := to.dev.Listen(netip.AddrPortFrom(to.dev.Addr(), 4420))
	if err != nil {
		m.t.Fatal(err)
	}
	defer l.Close()
	params := rdmatransport.ConnParams{InitiatorDepth: 16, ResponderResources: 16, RetryCount: 7, RNRRetryCount: 7}
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Accept(m.t.Context())
		if err == nil {
			to.do(func() { err = r.Accept(to.qp, params) })
		}
		accepted <- err
	}()
	if _, err = from.dev.Connect(m.t.Context(), from.qp, l.Addr(), params); err == nil {
		err = <-accepted
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// receive posts one receive on an end, or on its shared queue.
func (m *migrant) receive(b *end) error {
	wr := []rdmatransport.RecvWR{{ID: 1, SGL: b.sge(0, 4096)}}
	if !m.shared {
		return b.qp.PostRecv(wr)
	}
	for i, e := range m.ends {
		if e == b && m.sends > 0 {
			return m.srqs[i].PostRecv(wr)
		}
	}
	return nil
}

// exchange sends a message from the peer, like a command. The device answers it by a READ from the peer, a WRITE to
// it and a message.
func (m *migrant) exchange() {
	m.t.Helper()
	m.sends++
	for i, a := range m.peers {
		b := m.ends[i]
		m.command(a)
		m.serve(a, b)
	}
}

const moveData = 100_000

func (m *migrant) command(a *end) {
	m.t.Helper()
	fillBytes(a.mr.Bytes()[8192:][:moveData], m.sends)
	m.do(a, func() error {
		return a.qp.PostSend([]rdmatransport.SendWR{{ID: 10, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: a.sge(8192, 3000)}})
	})
}

func (m *migrant) serve(a, b *end) {
	m.t.Helper()
	if c := b.want(m.t, 1)[0]; c.ID != 1 || c.Status != rdmatransport.StatusSuccess || c.Bytes != 3000 {
		m.t.Fatalf("receive: %+v", c)
	}
	if !bytes.Equal(b.mr.Bytes()[:3000], a.mr.Bytes()[8192:][:3000]) {
		m.t.Fatal("the message differs")
	}
	m.do(b, func() error {
		if err := m.receive(b); err != nil {
			return err
		}
		return b.qp.PostSend([]rdmatransport.SendWR{
			{ID: 20, Op: rdmatransport.OpRead, Flags: rdmatransport.FlagSignaled, SGL: b.sge(8192, moveData), RemoteAddr: a.mr.IOVA() + 8192, RKey: a.mr.RKey()},
			{ID: 21, Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagFence, SGL: b.sge(8192, moveData), RemoteAddr: a.mr.IOVA() + 1<<19, RKey: a.mr.RKey()},
			{ID: 22, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: b.sge(8192, 16)},
		})
	})
	for _, c := range b.want(m.t, 2) {
		if c.Status != rdmatransport.StatusSuccess {
			m.t.Fatalf("answer: %+v", c)
		}
	}
	for _, c := range a.want(m.t, 2) {
		if c.Status != rdmatransport.StatusSuccess {
			m.t.Fatalf("the peer: %+v", c)
		}
	}
	m.do(a, func() error { return a.qp.PostRecv([]rdmatransport.RecvWR{{ID: 1, SGL: a.sge(0, 4096)}}) })
	if !bytes.Equal(a.mr.Bytes()[1<<19:][:moveData], a.mr.Bytes()[8192:][:moveData]) {
		m.t.Fatal("the data differ after READ and WRITE")
	}
}

func fillBytes(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i) ^ seed
	}
}

// exports drains the connections, ends the loops and exports the queue pairs.
func (m *migrant) exports() (states [][]byte) {
	m.t.Helper()
	for _, e := range m.ends[:len(m.peers)] {
		for start := time.Now(); ; time.Sleep(100 * time.Microsecond) {
			idle := false
			e.do(func() { idle = e.qp.(rdmatransport.MovableQueuePair).Idle() })
			if idle {
				break
			}
			if time.Since(start) > 10*time.Second {
				m.t.Fatal("the queue pair does not become idle")
			}
		}
	}
	for _, e := range m.ends {
		e.close()
	}
	for _, e := range m.ends[:len(m.peers)] {
		state, err := e.qp.(rdmatransport.MovableQueuePair).Export()
		if err != nil {
			m.t.Fatal(err)
		}
		states = append(states, state)
	}
	return states
}

// give moves the device away.
func (m *migrant) give() *rdmatransport.Moved {
	m.t.Helper()
	moved, err := m.dev.Move()
	if err != nil {
		m.t.Fatal(err)
	}
	m.old = m.dev
	return moved
}

func (m *migrant) leave() (*rdmatransport.Moved, [][]byte) {
	m.t.Helper()
	states := m.exports()
	return m.give(), states
}

// arrive opens the moved device, adopts the connections and begins.
func (m *migrant) arrive(moved *rdmatransport.Moved, states [][]byte) {
	m.t.Helper()
	m.settle(moved, states)
	m.begin(moved)
}

// settle does what arrive does, except Begin.
func (m *migrant) settle(moved *rdmatransport.Moved, states [][]byte) {
	m.t.Helper()
	cfg := m.cfg
	cfg.Moved = moved
	var err error
	if m.dev, err = Open(cfg); err != nil {
		m.t.Fatal(err)
	}
	if m.dom, err = m.dev.NewDomain(); err != nil {
		m.t.Fatal(err)
	}
	m.srqs = nil
	for i, e := range m.ends {
		*e = end{dev: m.dev, loop: newLoop(m.t, m.dev), dom: m.dom, mr: e.mr}
		m.equip(i, e.mr.Bytes())
	}
	m.adopt(states)
}

func (m *migrant) adopt(states [][]byte) {
	m.t.Helper()
	for i, state := range states {
		e := m.ends[i]
		m.do(e, func() (err error) {
			if e.qp, err = m.dom.(rdmatransport.AdoptingDomain).Adopt(m.config(i), state); err != nil || m.shared {
				return err
			}
			return m.receive(e)
		})
	}
}

// begin calls Begin, and closes what is left of the old device.
func (m *migrant) begin(moved *rdmatransport.Moved) {
	m.t.Helper()
	m.dev.Begin()
	if err := m.old.Close(); err != nil {
		m.t.Fatal(err)
	}
	if err := moved.Close(); err != nil {
		m.t.Fatal(err)
	}
}

// finish closes everything.
func (m *migrant) finish() {
	m.t.Helper()
	for i, a := range append(m.peers, m.ends...) {
		if a.qp != nil {
			a.do(func() { a.qp.Close() })
		}
		if i >= len(m.peers) && m.shared {
			m.do(a, m.srqs[i-len(m.peers)].Close)
		}
	}
	for _, e := range append(m.peers, m.ends...) {
		e.close()
	}
	for _, a := range m.peers {
		if err := a.dev.Close(); err != nil {
			m.t.Error(err)
		}
	}
	if err := m.dev.Close(); err != nil {
		m.t.Error(err)
	}
}

// unharmed requires that a device has dropped no packets and, if no time passes during the move, has retransmitted
// none: a softroce peer asks for a missing answer after 2 ms.
func unharmed(t *testing.T, name string, d *Device, quick bool) {
	t.Helper()
	var s Stats
	for _, o := range d.Stats() {
		s.Add(&o)
	}
	if r := &s.RC; quick && r.Retransmits+r.Timeouts+r.SequenceNAKsGot+r.SequenceNAKsSent+r.RNRNAKsGot+r.RNRNAKsSent+r.Duplicates+s.CM.Retransmits > 0 {
		t.Errorf("%s: %+v", name, *r)
	}
	for reason, n := range s.Drops() {
		if n > 0 {
			t.Errorf("%s: %d packets dropped: %s", name, n, reason)
		}
	}
}

// A moveCase is a device to move.
type moveCase struct {
	name   string
	addr   string // its address; its peers' differ in the last bits
	shards int
	change func(*migrant)
}

var moveCases = []moveCase{
	{"one shard", "127.104.0.1", 1, nil},
	{"three shards", "127.104.0.17", 3, nil},
	{"the active side", "127.104.0.65", 2, func(m *migrant) { m.active = true }},
	{"without remote access", "127.104.0.33", 1, func(m *migrant) { m.noRemote = true }},
	{"shared receives", "127.104.0.49", 2, func(m *migrant) { m.shared, m.noRemote = true, true }},
}

func (c *moveCase) configs(n *udp.Network) (Config, []Config) {
	at := netip.MustParseAddr(c.addr)
	cfg, peer := Config{Addr: at, Shards: c.shards, Network: n}, at
	var peers []Config
	for range c.shards {
		peer = peer.Next()
		peers = append(peers, Config{Addr: peer, Network: n})
	}
	return cfg, peers
}

// run moves the device many times, each time with a command in flight.
func (c *moveCase) run(t *testing.T, n *udp.Network, moves int) {
	cfg, peers := c.configs(n)
	m := newMigrant(t, cfg, peers, c.change)
	m.exchange()
	for range moves {
		moved, states := m.leave()
		m.sends++
		for _, a := range m.peers {
			m.command(a)
		}
		m.arrive(moved, states)
		for i, a := range m.peers {
			m.serve(a, m.ends[i])
		}
		unharmed(t, "moved", m.dev, n != nil)
	}
	m.exchange()
	for i, a := range m.peers {
		unharmed(t, fmt.Sprintf("peer %d", i), a.dev, n != nil)
	}
	m.finish()
}

// TestMove: a device moves from one owner to the next while commands arrive, and no peer notices.
func TestMove(t *testing.T) {
	moves := 50
	for _, c := range append(moveCases, moveCase{"IPv6", "2001:db8::1", 2, nil}, moveCase{"link-local", "fe80::1%eth0", 1, nil}) {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, udp.NewNetwork(1), moves) })
		})
		moves = 5
	}
}

// TestMoveSockets does the same with sockets.
func TestMoveSockets(t *testing.T) {
	for _, c := range moveCases {
		t.Run(c.name, func(t *testing.T) { c.run(t, nil, 3) })
	}
}
