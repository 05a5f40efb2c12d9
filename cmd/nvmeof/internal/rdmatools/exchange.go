package rdmatools

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/perftest"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// controlDepths are the depths of the connection for perftest's exchange.
var controlDepths = depths{8, 8, perftest.MaxMessage}

// A side is the client or server role in the exchange: who connects, and who sends first.
type side interface {
	// connection makes the next connection. A client makes at most that many attempts.
	connection(tries int, limit time.Duration, d depths) (*conn, error)
	// swap sends a message and returns the other side's message, which has the same size.
	swap(c *conn, mine []byte) ([]byte, error)
}

type client struct {
	e  *endpoint
	to call
}

func (s *client) connection(tries int, _ time.Duration, d depths) (*conn, error) {
	to := s.to
	to.tries = tries
	return s.e.dial(to, d)
}

// swap sends first.
func (s *client) swap(c *conn, mine []byte) ([]byte, error) {
	if err := c.send(mine); err != nil {
		return nil, err
	}
	return receiveLike(c, mine)
}

type server struct {
	e *endpoint
	l rdmatransport.Listener
}

func (s *server) connection(_ int, limit time.Duration, d depths) (*conn, error) {
	return s.e.accept(s.l, limit, d)
}

// swap receives first.
func (s *server) swap(c *conn, mine []byte) ([]byte, error) {
	theirs, err := receiveLike(c, mine)
	if err != nil {
		return nil, err
	}
	return theirs, c.send(mine)
}

func receiveLike(c *conn, mine []byte) ([]byte, error) {
	theirs, err := c.receive()
	if err == nil && len(theirs) != len(mine) {
		err = fmt.Errorf("the other end sent %d bytes, want %d: does it run the same test?", len(theirs), len(mine))
	}
	return theirs, err
}

// A run is a measurement with a connected peer.
type run struct {
	*measure
	e       *endpoint
	side    side
	client  bool
	control *conn
	data    *conn
	mr      rdmatransport.MemoryRegion // memory that the other side reads or writes
	own     perftest.Destination
	remote  perftest.Destination
}

// dataTries is the number of a client's attempts to make the second connection, for which perftest's server starts to
// listen again.
const dataTries = 20

// meet connects both sides, measures, and ends the exchange.
func (t *measure) meet(e *endpoint, side side) (err error) {
	r := run{measure: t, e: e, side: side, client: t.server.IsValid()}
	if !e.dev.Attrs().Atomics && t.test.Verb.Atomic() {
		return fmt.Errorf("%s has no atomic operations", e.dev.Attrs().Name)
	}
	if r.control, err = side.connection(1, unlimited, controlDepths); err != nil {
		return err
	}
	defer r.control.close()
	if err := r.greet(); err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	if r.data, err = side.connection(dataTries, stepTimeout, r.dataDepths()); err != nil {
		return err
	}
	defer r.data.close() // both sides disconnect; perftest waits for this one's disconnect
	if err := r.introduce(); err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	setting := r.setting()
	if !t.json() {
		if err := setting.Head(t.out); err != nil {
			return err
		}
	}
	return r.measured(setting)
}

// dataDepths returns the depths of the connection that carries the data.
func (r *run) dataDepths() depths {
	d := depths{send: min(r.sendDepth, r.n), receive: 1, size: 1}
	if r.test.Latency {
		d.send = latencyDepth
	}
	if r.test.Verb == perftest.Send && (!r.client || r.test.Latency) {
		d.receive, d.size = min(r.recvDepth, r.n), r.size
	}
	return d
}

// maxCycle limits how much memory the other side can cause to be registered.
const maxCycle = 1 << 20

// greet exchanges the versions and the sizes of the machines.
func (r *run) greet() error {
	theirs, err := r.side.swap(r.control, perftest.VersionMessage())
	if err == nil {
		err = perftest.CheckVersion(theirs)
	}
	if err != nil {
		return err
	}
	cycle, err := r.side.swap(r.control, perftest.Number(perftest.CycleBuffer))
	if err != nil {
		return err
	}
	if n := perftest.ParseNumber(cycle); n > maxCycle {
		return fmt.Errorf("the other end has a cycle buffer of %d bytes, but at most %d are supported", n, maxCycle)
	}
	for _, m := range [][]byte{perftest.Number(perftest.CacheLine), perftest.MTUMessage()} {
		if _, err := r.side.swap(r.control, m); err != nil {
			return err
		}
	}
	if err := r.register(max(perftest.CycleBuffer, int(perftest.ParseNumber(cycle)))); err != nil {
		return err
	}
	_, err = r.side.swap(r.control, perftest.Destination{}.Encode())
	return err
}

// register registers the memory that the other side reads or writes. perftest's client cycles through a buffer with
// messages smaller than half of it.
func (r *run) register(cycle int) (err error) {
	access := map[perftest.Verb]rdmatransport.Access{
		perftest.Write:       rdmatransport.AccessRemoteWrite,
		perftest.Read:        rdmatransport.AccessRemoteRead,
		perftest.FetchAdd:    rdmatransport.AccessRemoteAtomic,
		perftest.CompareSwap: rdmatransport.AccessRemoteAtomic,
	}[r.test.Verb]
	r.mr, err = r.e.dom.Register(make([]byte, 2*max(r.size, cycle)), access|rdmatransport.AccessLocalWrite)
	if err == nil && r.test.Verb == perftest.Read {
		fill(r.mr.Bytes())
	}
	return err
}

// fill sets all bytes to values other than 0, whose pattern does not repeat with a power of two.
func fill(b []byte) {
	for i := range b {
		b[i] = byte(1 + i%251)
	}
}

// introduce sends this side's destination and stores the other side's.
func (r *run) introduce() error {
	if _, err := r.side.swap(r.control, perftest.Destination{}.Encode()); err != nil {
		return err
	}
	r.own = perftest.Destination{Reads: r.reads, QPN: r.data.qp.QPN(), RKey: r.mr.RKey(), VAddr: r.mr.IOVA(), Addr: r.e.addr}
	for range r.test.AfterConnecting() - 1 {
		theirs, err := r.side.swap(r.control, r.own.Encode())
		if err == nil {
			r.remote, err = perftest.ParseDestination(theirs)
		}
		if err != nil {
			return err
		}
	}
	if r.remote.QPN == 0 {
		return errors.New("the other end names no queue pair")
	}
	return nil
}

// setting returns the description of the run for the reports.
func (r *run) setting() perftest.Setting {
	s := perftest.Setting{Test: r.test, Device: r.e.dev.Attrs().Name, Local: r.own, Remote: r.remote}
	d := r.dataDepths()
	switch {
	case r.test.Latency:
		s.SendDepth = 1
	case r.client:
		s.SendDepth = d.send
	}
	if r.test.Verb == perftest.Send && d.size == r.size {
		s.RecvDepth = d.receive
	}
	if r.test.Verb == perftest.Read || r.test.Verb.Atomic() {
		s.Reads = r.reads
	}
	return s
}
