package peer

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/test/gremlin/internal/packet"
)

// An Endpoint is an address whose UDP port 4791 it owns.
type Endpoint struct {
	*Socket
	To   netip.Addr // the peer that it has to do with
	Port uint16     // of the peer's service, in the RDMA CM's port space
	MTU  int        // path MTU that requests ask for, in bytes

	// Timeout is how long to wait for an answer of the peer; default 3 s.
	Timeout time.Duration
	Random  *rand.Rand

	// Request handles a REQ; nil: it is ignored.
	Request func(m *packet.MAD, from netip.Addr)
	// Message is called with every message of the connection manager before it is handled. If it returns true, the
	// message is not handled.
	Message func(m *packet.MAD, from netip.Addr) (done bool)

	Received uint64 // datagrams

	conns  map[uint32]*Conn // by number of their queue pair
	ids    map[uint32]*Conn // by communication ID
	buffer []byte
}

// Open opens an endpoint at an address of this machine.
func Open(addr netip.Addr, seed uint64) (*Endpoint, error) {
	s, err := Bind(addr, packet.Port)
	if err != nil {
		return nil, err
	}
	return &Endpoint{
		Socket: s, MTU: 1024, Timeout: 3 * time.Second, Random: rand.New(rand.NewPCG(seed, seed)),
		conns: map[uint32]*Conn{}, ids: map[uint32]*Conn{}, buffer: make([]byte, 1<<16),
	}, nil
}

// Poll handles received packets for the given time.
func (e *Endpoint) Poll(d time.Duration) error {
	return e.Until(time.Now().Add(d), func() bool { return false })
}

// Until handles received packets until end or until done returns true.
func (e *Endpoint) Until(end time.Time, done func() bool) error {
	for !done() {
		b, from, ok, err := e.receive(e.buffer, end)
		if err != nil {
			return err
		}
		if ok {
			e.Received++
			if err := e.take(b, from); err != nil {
				return err
			}
		} else if !time.Now().Before(end) {
			return nil
		}
	}
	return nil
}

// take passes a datagram to the connection manager or the queue pair. Others are dropped.
func (e *Endpoint) take(b []byte, from netip.Addr) error {
	p, err := packet.Parse(b)
	if err != nil {
		return nil //nolint:nilerr // malformed packets are ignored
	}
	if p.QPN == packet.CMQPN {
		if p.Opcode != packet.DatagramSend || len(p.Payload) != len(packet.MAD{}) {
			return nil
		}
		m := packet.MAD(p.Payload)
		return e.manage(&m, from)
	}
	if c := e.conns[p.QPN]; c != nil {
		return c.receive(&p)
	}
	return nil
}

// Say sends messages of the connection manager to the peer.
func (e *Endpoint) Say(ms ...packet.MAD) error {
	for i := range ms {
		if err := e.Send(e.To, ms[i].Datagram()); err != nil {
			return err
		}
	}
	return nil
}

// Conns returns the queue pairs, except forgotten ones.
func (e *Endpoint) Conns() (out []*Conn) {
	for _, c := range e.conns {
		out = append(out, c)
	}
	return out
}

// Forget drops a connection without a message to the peer. Later packets for it are dropped.
func (e *Endpoint) Forget(c *Conn) {
	delete(e.conns, c.QPN)
	delete(e.ids, c.Local)
}

// Leave disconnects every connection that the peer has not ended.
func (e *Endpoint) Leave() error {
	end := time.Now().Add(time.Second)
	for range 5 {
		open := 0
		for _, c := range e.conns {
			if c.Remote == 0 || c.Gone {
				continue
			}
			open++
			if err := e.Say(c.Disconnect()); err != nil {
				return err
			}
		}
		if open == 0 {
			break
		}
		left := func() bool {
			for _, c := range e.conns {
				if c.Remote != 0 && !c.Gone {
					return false
				}
			}
			return true
		}
		if err := e.Until(time.Now().Add(100*time.Millisecond), left); err != nil || time.Now().After(end) {
			return err
		}
	}
	clear(e.conns)
	clear(e.ids)
	return nil
}
