package rdmatest

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// timeLimit is how long the suite waits for something that must happen.
const timeLimit = 10 * time.Second

// A pair is the fixture of one test.
type pair struct {
	t *testing.T
	Pair
	lossy  bool
	coarse bool
	loose  bool
	a, b   *end
}

func (p *pair) close() {
	p.a.close()
	p.b.close()
	for _, d := range []rdmatransport.Device{p.Active, p.Passive} {
		if err := d.Close(); err != nil {
			p.t.Errorf("closing a device: %v", err)
		}
	}
}

// An end is one device with the loops that drive its completion queues.
type end struct {
	t      *testing.T
	name   string
	device rdmatransport.Device
	domain rdmatransport.Domain
	loops  []*loop
}

func newEnd(t *testing.T, name string, d rdmatransport.Device) *end {
	t.Helper()
	domain, err := d.NewDomain()
	if err != nil {
		t.Fatalf("%s: NewDomain: %v", name, err)
	}
	e := &end{t: t, name: name, device: d, domain: domain}
	e.addLoop()
	return e
}

// addLoop opens one more completion queue and starts a goroutine that drives it.
func (e *end) addLoop() *loop {
	e.t.Helper()
	cq, err := e.device.NewCompletionQueue(rdmatransport.CQConfig{})
	if err != nil {
		e.t.Fatalf("%s: NewCompletionQueue: %v", e.name, err)
	}
	l := &loop{
		end: e, cq: cq, mail: make(chan func(), 16), ended: make(chan struct{}),
		seen: make(chan rdmatransport.Completion, 1<<14),
	}
	e.loops = append(e.loops, l)
	go l.run()
	return l
}

func (e *end) close() {
	for _, l := range e.loops {
		l.do(func() { l.stop = true })
		<-l.ended
	}
}

// A loop drives one completion queue.
type loop struct {
	end   *end
	cq    rdmatransport.CompletionQueue
	mail  chan func()
	seen  chan rdmatransport.Completion
	ended chan struct{}
	stop  bool
	sides []*side
}

func (l *loop) run() {
	defer close(l.ended)
	var cs [16]rdmatransport.Completion
	for !l.stop {
		l.readMail()
		n := l.cq.Poll(cs[:])
		for _, c := range cs[:n] {
			l.seen <- c
		}
		l.cq.Flush()
		if n == 0 && !l.stop {
			l.cq.Wait(l.cq.Due())
		}
	}
	for _, s := range l.sides {
		s.qp.Close()
	}
	l.cq.Flush()
}

func (l *loop) readMail() {
	for {
		select {
		case fn := <-l.mail:
			fn()
		default:
			return
		}
	}
}

// do runs fn in the loop and waits until it has returned.
func (l *loop) do(fn func()) {
	done := make(chan struct{})
	call := func() { fn(); close(done) }
	l.mail <- call
	l.cq.Wake()
	<-done
}

// A side is one end of a connection, with its memory.
type side struct {
	t      *testing.T
	name   string
	lossy  bool
	coarse bool
	loop   *loop
	qp     rdmatransport.QueuePair
	mem    []byte
	region rdmatransport.MemoryRegion
	reply  rdmatransport.ConnReply // active side
	saved  []rdmatransport.Completion
}

const allAccess = rdmatransport.AccessLocalWrite | rdmatransport.AccessRemoteRead |
	rdmatransport.AccessRemoteWrite | rdmatransport.AccessRemoteAtomic

// A connConfig describes a connection; zero fields take defaults.
type connConfig struct {
	qp       rdmatransport.QPConfig
	memory   int // bytes of each side, default 64 KiB
	access   rdmatransport.Access
	reads    int // both depths of both sides, default 8
	loopA    int // index of the loop
	loopB    int
	recvs    int // receives posted at each side before the connection, default 0
	recvSize int
	private  []byte
}

func (p *pair) connect(c connConfig) (a, b *side) {
	p.t.Helper()
	l := p.listen()
	defer l.Close()
	own := c
	own.qp.SharedRecv = nil // the shared queue belongs to the passive side
	a, b = p.newSide(p.a, c.loopA, "active", own), p.newSide(p.b, c.loopB, "passive", c)
	p.join(l, a, b, c)
	return a, b
}

func (p *pair) listen() rdmatransport.Listener {
	p.t.Helper()
	l, err := p.Passive.Listen(netip.AddrPortFrom(p.PassiveAddr, 0))
	if err != nil {
		p.t.Fatalf("Listen: %v", err)
	}
	return l
}

func (c *connConfig) params() rdmatransport.ConnParams {
	reads := c.reads
	if reads == 0 {
		reads = 8
	}
	return rdmatransport.ConnParams{
		PrivateData: c.private, InitiatorDepth: reads, ResponderResources: reads,
		RetryCount: 7, RNRRetryCount: 7,
	}
}

// join connects two sides over a listener.
func (p *pair) join(l rdmatransport.Listener, a, b *side, c connConfig) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	accepted := make(chan error, 1)
	go func() {
		req, err := l.Accept(ctx)
		if err == nil {
			b.loop.do(func() { err = req.Accept(b.qp, c.params()) })
		}
		accepted <- err
	}()
	reply, err := p.Active.Connect(ctx, a.qp, l.Addr(), c.params())
	if err2 := <-accepted; err != nil || err2 != nil {
		p.t.Fatalf("connecting: active %v, passive %v", err, err2)
	}
	a.reply = reply
}

func (p *pair) newSide(e *end, loop int, name string, c connConfig) *side {
	p.t.Helper()
	l := e.loops[loop]
	size, access := c.memory, c.access
	if size == 0 {
		size = 64 << 10
	}
	if access == 0 {
		access = allAccess
	}
	s := &side{t: p.t, lossy: p.lossy, coarse: p.coarse, name: name, loop: l, mem: make([]byte, size)}
	region, err := e.domain.Register(s.mem, access)
	if err != nil {
		p.t.Fatalf("%s: Register: %v", name, err)
	}
	s.region = region
	c.qp.CQ = l.cq
	l.do(func() {
		if s.qp, err = e.domain.NewQueuePair(c.qp); err == nil {
			l.sides = append(l.sides, s)
		}
	})
	if err != nil {
		p.t.Fatalf("%s: NewQueuePair: %v", name, err)
	}
	for i := range c.recvs {
		s.recv(uint64(1000+i), s.sge(i*c.recvSize, c.recvSize))
	}
	return s
}

// sge returns an element for n bytes at offset off of the side's memory.
func (s *side) sge(off, n int) rdmatransport.SGE {
	return rdmatransport.SGE{Buf: s.mem[off : off+n], LKey: s.region.LKey()}
}

// addr returns the address that a peer uses for offset off of the side's memory.
func (s *side) addr(off int) uint64 { return s.region.IOVA() + uint64(off) }

func (s *side) recv(id uint64, sgl ...rdmatransport.SGE) {
	s.t.Helper()
	if err := s.postRecv(rdmatransport.RecvWR{ID: id, SGL: sgl}); err != nil {
		s.t.Fatalf("%s: PostRecv: %v", s.name, err)
	}
}

func (s *side) postRecv(wrs ...rdmatransport.RecvWR) (err error) {
	s.loop.do(func() { err = s.qp.PostRecv(wrs) })
	return err
}

func (s *side) post(wrs ...rdmatransport.SendWR) {
	s.t.Helper()
	if err := s.tryPost(wrs...); err != nil {
		s.t.Fatalf("%s: PostSend: %v", s.name, err)
	}
}

func (s *side) tryPost(wrs ...rdmatransport.SendWR) (err error) {
	s.loop.do(func() { err = s.qp.PostSend(wrs) })
	return err
}

// next returns the queue pair's next completion.
func (s *side) next() rdmatransport.Completion {
	s.t.Helper()
	for i, c := range s.saved {
		if c.QPN == s.qp.QPN() {
			s.saved = append(s.saved[:i], s.saved[i+1:]...)
			return c
		}
	}
	timer := time.NewTimer(timeLimit)
	defer timer.Stop()
	for {
		select {
		case c := <-s.loop.seen:
			for _, other := range s.loop.sides {
				if other.qp.QPN() == c.QPN {
					if other == s {
						return c
					}
					other.saved = append(other.saved, c)
				}
			}
		case <-timer.C:
			s.t.Fatalf("%s: no completion within %v", s.name, timeLimit)
		}
	}
}

// want requires that the next completion is this one, and returns it.
func (s *side) want(id uint64, op rdmatransport.Opcode, status rdmatransport.Status) rdmatransport.Completion {
	s.t.Helper()
	c := s.next()
	if s.lossy && c.ID == id && c.Status == rdmatransport.StatusFlushed && refusal(status) {
		return c
	}
	if s.coarse && c.ID == id && c.Status != rdmatransport.StatusSuccess && localFailure(status) {
		return c
	}
	if c.ID != id || c.Status != status || status == rdmatransport.StatusSuccess && c.Op != op {
		s.t.Fatalf("%s: completion %s, want %s", s.name, describe(c),
			describe(rdmatransport.Completion{ID: id, Op: op, Status: status}))
	}
	return c
}

// refusal reports whether a status comes from the peer.
func refusal(s rdmatransport.Status) bool {
	return s == rdmatransport.StatusRemoteAccess || s == rdmatransport.StatusRemoteInvalidRequest ||
		s == rdmatransport.StatusRemoteOperation
}

// localFailure reports whether a status is a failure of one's own device, or the result of such a failure at the
// peer.
func localFailure(s rdmatransport.Status) bool {
	return s == rdmatransport.StatusLocalLength || s == rdmatransport.StatusLocalProtection ||
		s == rdmatransport.StatusBindError || s == rdmatransport.StatusRemoteInvalidRequest
}

func describe(c rdmatransport.Completion) string {
	return fmt.Sprintf("{id %d, op %d, %v, %d bytes}", c.ID, c.Op, c.Status, c.Bytes)
}

// wantIdle requires that no completion arrives within d.
func (s *side) wantIdle(d time.Duration) {
	s.t.Helper()
	select {
	case c := <-s.loop.seen:
		s.t.Fatalf("%s: completion %s, want none", s.name, describe(c))
	case <-time.After(d):
	}
}

// wantFlushed reads completions until each of ids has been flushed, exactly once.
func (s *side) wantFlushed(ids ...uint64) {
	s.t.Helper()
	left := map[uint64]bool{}
	for _, id := range ids {
		left[id] = true
	}
	for len(left) > 0 {
		c := s.next()
		if !left[c.ID] || c.Status != rdmatransport.StatusFlushed {
			s.t.Fatalf("%s: completion %s, want one of %v flushed, once", s.name, describe(c), left)
		}
		delete(left, c.ID)
	}
}

// wantErr waits until the queue pair reports its end, and returns the reason.
func (s *side) wantErr() error {
	s.t.Helper()
	for start := time.Now(); time.Since(start) < timeLimit; time.Sleep(time.Millisecond) {
		var err error
		s.loop.do(func() { err = s.qp.Err() })
		if err != nil {
			return err
		}
	}
	s.t.Fatalf("%s: queue pair did not end within %v", s.name, timeLimit)
	return nil
}

// fill writes a pattern that depends on seed.
func fill(b []byte, seed int) {
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
}

// wantBytes compares memory with the pattern of seed.
func wantBytes(t *testing.T, what string, got []byte, seed int) {
	t.Helper()
	want := make([]byte, len(got))
	fill(want, seed)
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: byte %d of %d is %#02x, want %#02x", what, i, len(got), got[i], want[i])
		}
	}
}
