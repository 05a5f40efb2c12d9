package rdmatest

import (
	"errors"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

var sharedTests = []testCase{
	{"Receives", testSharedReceives},
	{"NotReady", testSharedNotReady},
	{"End", testSharedEnd},
	{"CloseReturnsReceives", testSharedClose},
	{"Limits", testSharedLimits},
}

// A sharedQueue is a shared receive queue of the passive end, with its own memory region.
type sharedQueue struct {
	p      *pair
	queue  rdmatransport.SharedReceiveQueue
	mem    []byte
	region rdmatransport.MemoryRegion
}

const endID = 77 // ID of the completion that reports the end

const sharedSize = 8192 // bytes of each receive: more than one packet

func (p *pair) shared(depth int) *sharedQueue {
	p.t.Helper()
	if p.Passive.Attrs().MaxShared == 0 {
		p.t.Skip("the device has no shared receive queues")
	}
	s := &sharedQueue{p: p, mem: make([]byte, 16*sharedSize)}
	var err error
	if s.region, err = p.b.domain.Register(s.mem, rdmatransport.AccessLocalWrite); err != nil {
		p.t.Fatal(err)
	}
	l := p.b.loops[0]
	l.do(func() {
		s.queue, err = p.b.domain.NewSharedReceiveQueue(rdmatransport.SRQConfig{CQ: l.cq, Depth: depth})
	})
	if err != nil {
		p.t.Fatalf("NewSharedReceiveQueue: %v", err)
	}
	return s
}

// close requires that the queue can be freed once the sides are closed.
func (s *sharedQueue) close(sides ...*side) {
	s.p.t.Helper()
	var err error
	s.p.b.loops[0].do(func() {
		if len(sides) > 0 {
			if s.queue.Close() == nil {
				s.p.t.Error("a shared receive queue was closed under its queue pairs")
			}
		}
		for _, b := range sides {
			err = errors.Join(err, b.qp.Close())
		}
		err = errors.Join(err, s.queue.Close())
	})
	if err != nil {
		s.p.t.Errorf("closing queue pairs and what they share: %v", err)
	}
}

func (s *sharedQueue) sge(i int) rdmatransport.SGE {
	return rdmatransport.SGE{Buf: s.mem[i*sharedSize : (i+1)*sharedSize], LKey: s.region.LKey()}
}

// try posts receives. The number of a receive's buffer is its ID.
func (s *sharedQueue) try(ids ...int) (err error) {
	var wrs []rdmatransport.RecvWR
	for _, i := range ids {
		wrs = append(wrs, rdmatransport.RecvWR{ID: uint64(i), SGL: []rdmatransport.SGE{s.sge(i)}})
	}
	s.p.b.loops[0].do(func() { err = s.queue.PostRecv(wrs) })
	return err
}

func (s *sharedQueue) post(ids ...int) {
	s.p.t.Helper()
	if err := s.try(ids...); err != nil {
		s.p.t.Fatalf("PostRecv: %v", err)
	}
}

func (s *sharedQueue) connect() (a, b *side) {
	s.p.t.Helper()
	return s.p.connect(connConfig{qp: rdmatransport.QPConfig{SharedRecv: s.queue, EndID: endID}})
}

// send sends n patterned bytes.
func (s *side) send(id uint64, seed, n int) {
	fill(s.mem[:n], seed)
	s.post(rdmatransport.SendWR{ID: id, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, SGL: []rdmatransport.SGE{s.sge(0, n)}})
}

// testSharedReceives: messages of two connections take the oldest receives, whose completions tell the connection.
func testSharedReceives(p *pair) {
	s := p.shared(8)
	a1, b1 := s.connect()
	a2, b2 := s.connect()
	s.post(0, 1, 2, 3)
	peer := map[*side]*side{a1: b1, a2: b2}
	for i, from := range []*side{a1, a2, a2, a1} {
		from.send(uint64(i), i, 5000+i)
		c := peer[from].want(uint64(i), rdmatransport.OpRecv, rdmatransport.StatusSuccess)
		if int(c.Bytes) != 5000+i {
			p.t.Errorf("message %d: %d bytes, want %d", i, c.Bytes, 5000+i)
		}
		wantBytes(p.t, "message", s.mem[i*sharedSize:i*sharedSize+5000+i], i)
		from.want(uint64(i), rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
	var err error
	b1.loop.do(func() { err = b1.qp.PostRecv([]rdmatransport.RecvWR{{ID: 9}}) })
	if !errors.Is(err, rdmatransport.ErrSharedRecv) {
		p.t.Errorf("PostRecv on a queue pair that shares: %v, want %v", err, rdmatransport.ErrSharedRecv)
	}
	s.close(b1, b2)
}

// testSharedNotReady: with no receive left, messages of all connections wait.
func testSharedNotReady(p *pair) {
	s := p.shared(8)
	a1, b1 := s.connect()
	a2, b2 := s.connect()
	s.post(0)
	a1.send(1, 1, 100)
	b1.want(0, rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	a1.want(1, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	a2.send(2, 2, 100)
	a2.wantIdle(20 * time.Millisecond)
	s.post(5)
	b2.want(5, rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	wantBytes(p.t, "the message that waited", s.mem[5*sharedSize:5*sharedSize+100], 2)
	a2.want(2, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	s.close(b1, b2)
}

// testSharedEnd: receives that one connection has not taken remain available to the other.
func testSharedEnd(p *pair) {
	s := p.shared(8)
	a1, b1 := s.connect()
	a2, b2 := s.connect()
	s.post(0, 1)
	a1.loop.do(func() { a1.qp.Disconnect() })
	b1.wantFlushed(endID)
	b1.wantErr()
	b1.wantIdle(20 * time.Millisecond)
	for i := range 2 {
		a2.send(uint64(i), i, 100)
		b2.want(uint64(i), rdmatransport.OpRecv, rdmatransport.StatusSuccess)
		a2.want(uint64(i), rdmatransport.OpSend, rdmatransport.StatusSuccess)
	}
	s.close(b1, b2)
}

// testSharedClose: a receive whose completion was not polled when its queue pair is closed is returned as flushed or
// stays posted. In neither case is it lost.
func testSharedClose(p *pair) {
	s := p.shared(8)
	a, b := s.connect()
	s.post(3, 4)
	var first rdmatransport.Completion
	b.loop.do(func() { // the queue is not polled meanwhile
		sent := make(chan struct{})
		go func() { // ends with the posts
			defer close(sent)
			a.send(1, 1, 100)
			a.post(rdmatransport.SendWR{ID: 2, Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled, // the same bytes
				SGL: []rdmatransport.SGE{a.sge(0, 100)}})
		}()
		<-sent
		var cs [1]rdmatransport.Completion
		for start := time.Now(); b.loop.cq.Poll(cs[:]) == 0 && time.Since(start) < timeLimit; time.Sleep(time.Millisecond) {
			b.loop.cq.Flush()
		}
		first = cs[0]
		if err := b.qp.Close(); err != nil {
			p.t.Error(err)
		}
	})
	if first.ID != 3 || first.Status != rdmatransport.StatusSuccess {
		p.t.Fatalf("first completion %s", describe(first))
	}
	select {
	case c := <-b.loop.seen: // the completion of the end is dropped
		if c.ID != 4 || c.QPN != b.qp.QPN() || c.Status != rdmatransport.StatusFlushed {
			p.t.Fatalf("completion %s after Close", describe(c))
		}
		s.post(4)
	case <-time.After(50 * time.Millisecond):
	}
	a2, b2 := s.connect()
	a2.send(7, 7, 100)
	b2.want(4, rdmatransport.OpRecv, rdmatransport.StatusSuccess)
	a2.want(7, rdmatransport.OpSend, rdmatransport.StatusSuccess)
	s.close(b2)
}

// testSharedLimits: requests that the queue refuses.
func testSharedLimits(p *pair) {
	s := p.shared(4)
	s.post(0, 1, 2)
	if err := s.try(3, 4); !errors.Is(err, rdmatransport.ErrQueueFull) {
		p.t.Errorf("posting five of four: %v, want %v", err, rdmatransport.ErrQueueFull)
	}
	s.post(3) // the refused post queued nothing
	l := p.b.addLoop()
	l.do(func() {
		if _, err := p.b.domain.NewQueuePair(rdmatransport.QPConfig{CQ: l.cq, SharedRecv: s.queue}); err == nil {
			p.t.Error("a queue pair shares receives with one of another completion queue")
		}
		limit := p.Passive.Attrs().MaxShared
		if _, err := p.b.domain.NewSharedReceiveQueue(rdmatransport.SRQConfig{CQ: l.cq, Depth: limit + 1}); err == nil {
			p.t.Errorf("a shared receive queue is deeper than the limit of %d", limit)
		}
	})
	s.close()
}
