package fabric

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A gremlin is a bare queue pair that sends arbitrary capsules. It uses a shard of the rig as its loop.
type gremlin struct {
	r      *rig
	end    *rigEnd
	qp     rdmatransport.QueuePair
	mem    []byte
	region rdmatransport.MemoryRegion
	slot   gremlinSlot
	sent   int
}

func (r *rig) newGremlin(end *rigEnd) *gremlin {
	r.t.Helper()
	g := &gremlin{r: r, end: end, mem: make([]byte, 64<<10)}
	var err error
	if g.region, err = end.domain.Register(g.mem, rdmatransport.AccessLocalWrite|rdmatransport.AccessRemoteRead|rdmatransport.AccessRemoteWrite); err != nil {
		r.t.Fatal(err)
	}
	if g.qp, err = end.domain.NewQueuePair(rdmatransport.QPConfig{CQ: end.shard.CQ()}); err != nil {
		r.t.Fatal(err)
	}
	end.shard.Attach(&g.slot.slot, &g.slot)
	for i := range 32 {
		g.recv(i)
	}
	return g
}

func (g *gremlin) recv(i int) {
	sgl := []rdmatransport.SGE{{Buf: g.mem[i*512 : i*512+512], LKey: g.region.LKey()}}
	if err := g.qp.PostRecv([]rdmatransport.RecvWR{{ID: g.slot.slot.ID(uint32(i)), SGL: sgl}}); err != nil {
		g.r.t.Fatal(err)
	}
}

// send sends a capsule after changes to the work request.
func (g *gremlin) send(b []byte, change ...func(*rdmatransport.SendWR)) {
	g.r.t.Helper()
	at := 16<<10 + g.sent%4*(8<<10) // not one that may still be in flight
	g.sent++
	n := copy(g.mem[at:], b)
	wr := rdmatransport.SendWR{
		ID: g.slot.slot.ID(999), Op: rdmatransport.OpSend, Flags: rdmatransport.FlagSignaled,
		SGL: []rdmatransport.SGE{{Buf: g.mem[at:][:n], LKey: g.region.LKey()}},
	}
	for _, f := range change {
		f(&wr)
	}
	if err := g.qp.PostSend([]rdmatransport.SendWR{wr}); err != nil {
		g.r.t.Fatal(err)
	}
}

// answer returns the n-th capsule that arrived, from 0.
func (g *gremlin) answer(n int) []byte {
	g.r.t.Helper()
	g.r.until("an answer", func() bool { return len(g.slot.got) > n })
	return g.mem[n*512 : n*512+int(g.slot.got[n].Bytes)]
}

// A gremlinSlot records what arrives.
type gremlinSlot struct {
	slot shard.Slot
	got  []rdmatransport.Completion // of receives
	err  rdmatransport.Status       // of the first work request that failed
}

func (s *gremlinSlot) Complete(c *rdmatransport.Completion, _ uint32) {
	if c.Status != rdmatransport.StatusSuccess {
		if s.err == rdmatransport.StatusSuccess {
			s.err = c.Status
		}
		return
	}
	if c.Op == rdmatransport.OpRecv {
		s.got = append(s.got, *c)
	}
}

func (s *gremlinSlot) Retry() {}
func (s *gremlinSlot) Flush() {}

// hostileHost connects a gremlin to a store.
func (r *rig) hostileHost(s *store, tc TargetConfig) *gremlin {
	r.t.Helper()
	q := r.newTarget(s, tc)
	g := r.newGremlin(&r.host)
	private := make([]byte, capsule.RequestDataSize)
	capsule.RequestData{QID: 1, HRQSIZE: 16, HSQSIZE: 15}.Encode(private)
	r.connect(g.qp, private, func(req rdmatransport.ConnRequest) error { return q.Accept(req, rdmatransport.ConnParams{}) })
	return g
}

func encode(c capsule.Command) []byte {
	b := make([]byte, capsule.CommandSize)
	c.Encode(b)
	return b
}

func (g *gremlin) wantStatus(n int, id capsule.CID, want capsule.Status) {
	g.r.t.Helper()
	c, err := capsule.DecodeCompletion(g.answer(n))
	if err != nil || c.CID != id || c.Status != want {
		g.r.t.Fatalf("answer %d: command %d, %v (%v), want command %d, %v", n, c.CID, c.Status, err, id, want)
	}
}

// TestHostileCapsules is row 58 and other cases that end a queue.
func TestHostileCapsules(t *testing.T) {
	flush := encode(command(capsule.IOFlush, capsule.KeyedSGL(0, 0, 0, false)))
	cases := []struct {
		name string
		send func(g *gremlin)
		want error
	}{
		{"63 bytes", func(g *gremlin) { g.send(flush[:63]) }, ErrShortCapsule},
		{"nothing", func(g *gremlin) { g.send(nil) }, ErrShortCapsule},
		{"too long", func(g *gremlin) { g.send(make([]byte, 64+4096+1)) }, nil},
		{"WRITE with immediate", func(g *gremlin) {
			g.send(nil, func(wr *rdmatransport.SendWR) {
				wr.Op, wr.Flags = rdmatransport.OpWrite, rdmatransport.FlagImmediate
			})
		}, ErrProtocol},
		{"RDMA WRITE into our memory", func(g *gremlin) { // row 18
			g.send(flush, func(wr *rdmatransport.SendWR) {
				wr.Op, wr.RKey, wr.RemoteAddr = rdmatransport.OpWrite, 1, 4096
			})
		}, nil},
		{"invalidation of an unknown key", func(g *gremlin) { // row 29
			g.send(flush, func(wr *rdmatransport.SendWR) {
				wr.Flags, wr.InvalidateKey = rdmatransport.FlagInvalidate, 77
			})
		}, nil},
	}
	for _, c := range cases {
		r := newRig(t, 0)
		s := r.newStore(4096)
		g := r.hostileHost(s, TargetConfig{InCapsule: 4096})
		before := bytes.Clone(s.queue.memory.mem)
		c.send(g)
		r.until(c.name+" ends the queue", func() bool { return s.closed == 1 })
		if s.given != 0 || s.failed == nil || c.want != nil && !errors.Is(s.failed, c.want) {
			t.Errorf("%s: %d commands, ended with %v", c.name, s.given, s.failed)
		}
		if c.name == "RDMA WRITE into our memory" && !bytes.Equal(before, s.queue.memory.mem) {
			t.Errorf("%s: memory was touched", c.name)
		}
	}
}

// TestExtraBytes: data that no SGL describes is ignored, and is never taken for data of a later command with the same
// buffer (rows 49 and 58).
func TestExtraBytes(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(4096)
	g := r.hostileHost(s, TargetConfig{Depth: 2, InCapsule: 4096})
	for i := range 6 {
		secret := bytes.Repeat([]byte{0x55}, 4096)
		flush := command(capsule.IOFlush, capsule.KeyedSGL(0, 0, 0, false))
		flush.CID = capsule.CID(2 * i)
		g.send(append(encode(flush), secret...))
		g.wantStatus(2*i, flush.CID, capsule.StatusInvalidOpcode|capsule.StatusDNR)
		stale := command(capsule.IOWrite, capsule.InCapsuleSGL(0, 4096))
		stale.CID = capsule.CID(2*i + 1)
		g.send(append(encode(stale), 1, 2, 3))
		g.wantStatus(2*i+1, stale.CID, capsule.StatusSGLDataLength|capsule.StatusDNR)
	}
}

// TestImmediate is row 29: a SEND with immediate data is a SEND.
func TestImmediate(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(4096)
	g := r.hostileHost(s, TargetConfig{})
	g.send(encode(command(capsule.IOFlush, capsule.KeyedSGL(0, 0, 0, false))), func(wr *rdmatransport.SendWR) {
		wr.Flags |= rdmatransport.FlagImmediate
	})
	g.wantStatus(0, 0, capsule.StatusInvalidOpcode|capsule.StatusDNR)
}

// TestIdentifierOfAnEvent is row 61 if the handler gives up the first command: the second one gets the only response,
// and the first one costs the host no queue entry.
func TestIdentifierOfAnEvent(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(4096)
	s.hold, s.yields = true, true
	g := r.hostileHost(s, TargetConfig{})
	flush := command(capsule.IOFlush, capsule.KeyedSGL(0, 0, 0, false))
	flush.CID = 7
	for i := range 40 { // more than there are entries
		g.send(encode(flush))
		r.settle()
		if len(s.held) != 1 || s.done != i || s.queue.Active() != 1 {
			t.Fatalf("%d commands held, %d given back, %d active", len(s.held), s.done, s.queue.Active())
		}
	}
	s.held[0].Respond(capsule.StatusSuccess, 0)
	g.wantStatus(0, 7, capsule.StatusSuccess)
}

// TestSameCIDTwice is row 61: the first command is not disturbed.
func TestSameCIDTwice(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(4096)
	s.hold = true
	g := r.hostileHost(s, TargetConfig{})
	flush := command(capsule.IOFlush, capsule.KeyedSGL(0, 0, 0, false))
	flush.CID = 0xffff // row 62: a CID like any other
	for i := range 3 {
		g.send(encode(flush))
		if i > 0 {
			g.wantStatus(i-1, 0xffff, capsule.StatusCommandIDConflict|capsule.StatusDNR)
		}
	}
	if len(s.held) != 1 {
		t.Fatalf("%d commands given, want 1", len(s.held))
	}
	if s.queue.Find(0xffff) != s.held[0] || s.queue.Find(1) != nil {
		t.Error("Find does not find the command that is outstanding")
	}
	s.held[0].Respond(capsule.StatusSuccess, 0)
	g.wantStatus(2, 0xffff, capsule.StatusSuccess)
	g.send(encode(flush)) // and now it is free
	r.until("the command arrives", func() bool { return len(s.held) == 2 })
}

// TestRefusedKey is row 57: a failed RDMA READ ends the queue and no part of the command is executed; after a failed
// WRITE there is no response.
func TestRefusedKey(t *testing.T) {
	for _, op := range []capsule.IOOpcode{capsule.IOWrite, capsule.IORead} {
		r := newRig(t, 0)
		s := r.newStore(64 << 10)
		g := r.hostileHost(s, TargetConfig{})
		g.send(encode(command(op, capsule.KeyedSGL(g.region.IOVA(), 4096, uint32(g.region.RKey())+1, false))))
		r.until("the queue ends", func() bool { return s.closed == 1 })
		var transfer *TransferError
		if !errors.As(s.failed, &transfer) || transfer.Status != rdmatransport.StatusRemoteAccess {
			t.Errorf("%v with a bad key: ended with %v", op, s.failed)
		}
		if s.given != 1 || s.done != 1 || len(g.slot.got) != 0 {
			t.Errorf("%v with a bad key: %d given, %d done, %d answers", op, s.given, s.done, len(g.slot.got))
		}
	}
}

// TestDescriptorList transfers the data of a command with a list of keyed descriptors into and out of several pieces.
func TestDescriptorList(t *testing.T) {
	for _, op := range []capsule.IOOpcode{capsule.IOWrite, capsule.IORead} {
		r := newRig(t, 5000)
		s := r.newStore(64 << 10)
		s.pieces = 3
		g := r.hostileHost(s, TargetConfig{InCapsule: 512, MaxDescriptors: 8})
		host := g.mem[48<<10:]
		at := g.region.IOVA() + 48<<10
		key := uint32(g.region.RKey())
		parts := []capsule.SGL{
			capsule.KeyedSGL(at, 1, key, false), capsule.KeyedSGL(at+1, 4999, key, false),
			capsule.KeyedSGL(0, 0, 0, false), capsule.KeyedSGL(at+5000, 3000, key, false),
		}
		b := encode(command(op, capsule.LastSegmentSGL(32, uint32(len(parts)*capsule.SGLSize))))
		b = append(b, make([]byte, 32+len(parts)*capsule.SGLSize)...)
		for i, p := range parts {
			p.Encode(b[capsule.CommandSize+32+i*capsule.SGLSize:])
		}
		fill(host[:8000], 1)
		if op == capsule.IORead {
			fill(s.mem[:8000], 2)
		}
		g.send(b)
		g.wantStatus(0, 0, capsule.StatusSuccess)
		if !bytes.Equal(host[:8000], s.mem[:8000]) {
			t.Errorf("%v: data differs", op)
		}
	}
}

// TestBacklog: commands of a host that arrive before the acknowledgements of earlier responses wait, and nothing is
// lost.
func TestBacklog(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(4096)
	s.hold = true
	g := r.hostileHost(s, TargetConfig{Depth: 2})
	// Unacknowledged responses: the contexts of a queue are marked as such.
	q := s.queue
	for q.free.First() != nil {
		q.free.Pop()
	}
	for i := range 2 {
		c := command(capsule.IOFlush, capsule.KeyedSGL(0, 0, 0, false))
		c.CID = capsule.CID(i)
		g.send(encode(c))
	}
	r.settle()
	if s.given != 0 || q.backlog.count != 2 {
		t.Fatalf("%d commands given, %d wait, want all to wait", s.given, q.backlog.count)
	}
	for i := range 2 {
		c := &q.commands[i]
		c.given, c.posted, c.state = false, 0, commandSent
		q.active++
		q.sent(c)
	}
	if s.given != 2 {
		t.Errorf("%d commands given after the acknowledgements, want 2", s.given)
	}
	for _, c := range s.held {
		c.Respond(capsule.StatusSuccess, 0)
	}
	g.wantStatus(0, 0, capsule.StatusSuccess)
	g.wantStatus(1, 1, capsule.StatusSuccess)
}

// hostileTarget connects a host queue to a gremlin and returns the command that the host then sends.
func (r *rig) hostileTarget(hc HostConfig, q *Request) (*HostQueue, *gremlin, capsule.Command) {
	r.t.Helper()
	hc.Shard, hc.Domain, hc.Attrs, hc.Depth = r.host.shard, r.host.domain, r.host.device.Attrs(), 8
	h, err := NewHost(hc)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { h.Free() })
	qp, err := h.Open()
	if err != nil {
		r.t.Fatal(err)
	}
	g := r.newGremlin(&r.target)
	r.connect(qp, h.RequestData(0, 0), func(req rdmatransport.ConnRequest) error {
		return req.Accept(g.qp, rdmatransport.ConnParams{InitiatorDepth: 4})
	})
	h.Established()
	if err := h.Submit(q); err != nil {
		r.t.Fatal(err)
	}
	c, err := capsule.DecodeCommand(g.answer(0))
	if err != nil {
		r.t.Fatal(err)
	}
	return h, g, c
}

// TestHostileTarget is rows 95 and 96 and similar cases: the queue ends, and no request succeeds because of it.
func TestHostileTarget(t *testing.T) {
	response := func(id capsule.CID) []byte {
		b := make([]byte, capsule.CompletionSize)
		c := capsule.Completion{CID: id}
		c.Encode(b)
		return b
	}
	invalidate := func(key uint32) func(*rdmatransport.SendWR) {
		return func(wr *rdmatransport.SendWR) {
			wr.Flags |= rdmatransport.FlagInvalidate
			wr.InvalidateKey = rdmatransport.RKey(key)
		}
	}
	cases := []struct {
		name    string
		windows bool
		send    func(g *gremlin, c capsule.Command)
		want    error
	}{
		{"unknown command", false, func(g *gremlin, c capsule.Command) { g.send(response(c.CID + 1)) }, ErrProtocol},
		{"earlier command of the slot", false, func(g *gremlin, c capsule.Command) { g.send(response(c.CID - 8)) }, ErrProtocol},
		{"command out of range", false, func(g *gremlin, c capsule.Command) { g.send(response(0xffff)) }, ErrProtocol},
		{"short response", false, func(g *gremlin, c capsule.Command) { g.send(response(c.CID)[:15]) }, ErrShortCapsule},
		{"oversized response", false, func(g *gremlin, c capsule.Command) { g.send(make([]byte, 65)) }, nil},
		{"invalidation of an unknown key", true, func(g *gremlin, c capsule.Command) { g.send(response(c.CID), invalidate(0x1234567)) }, nil},
		{"invalidation without a window", false, func(g *gremlin, c capsule.Command) { g.send(response(c.CID), invalidate(c.SGL.Key())) }, nil},
		{"WRITE with immediate", false, func(g *gremlin, c capsule.Command) {
			g.send(nil, func(wr *rdmatransport.SendWR) {
				wr.Op, wr.Flags = rdmatransport.OpWrite, rdmatransport.FlagImmediate
			})
		}, ErrProtocol},
		{"more data than asked for", true, func(g *gremlin, c capsule.Command) { // row 97
			g.send(make([]byte, 4097), func(wr *rdmatransport.SendWR) {
				wr.Op, wr.RemoteAddr, wr.RKey = rdmatransport.OpWrite, c.SGL.Address, rdmatransport.RKey(c.SGL.Key())
			})
		}, nil},
	}
	for _, c := range cases {
		r := newRig(t, 0)
		m := r.hostMemory(8192, c.windows)
		q := transfer(capsule.IORead, m, 0, 4096, 0)
		done := 0
		q.Done = func(*Request) { done++ }
		h, g, cmd := r.hostileTarget(HostConfig{Windows: c.windows}, q)
		c.send(g, cmd)
		r.until(c.name+" ends the queue", func() bool { return h.State() == StateClosed })
		if done != 1 || q.Err == nil || c.want != nil && !errors.Is(q.Err, c.want) {
			t.Errorf("%s: request came back %d times with %v", c.name, done, q.Err)
		}
	}
}

// TestOutsideTheBuffer is row 97: a command's key gives access to its own data and to no byte beside it, whatever other
// memory of the host lies there.
func TestOutsideTheBuffer(t *testing.T) {
	const at, size = 8192, 4096
	for _, op := range []capsule.IOOpcode{capsule.IORead, capsule.IOWrite} {
		for _, c := range []struct {
			name   string
			off    int64
			length int
		}{
			{"the byte before", -1, 1}, {"the byte behind", size, 1}, {"from before", -100, 200}, {"beyond the end", size - 1, 2},
			{"all and one more", 0, size + 1}, {"the rest of the memory", -at, 32 << 10}, {"around the address space", -1 << 63, 8},
		} {
			r := newRig(t, 0)
			m := r.hostMemory(32<<10, true)
			fill(m.Bytes(), 1)
			before := bytes.Clone(m.Bytes())
			q := transfer(op, m, at, size, 0)
			h, g, cmd := r.hostileTarget(HostConfig{Windows: true}, q)
			got := g.mem[:32<<10]
			clear(got[16<<10:])
			g.send(nil, func(wr *rdmatransport.SendWR) {
				wr.Op, wr.SGL = rdmatransport.OpWrite, []rdmatransport.SGE{{Buf: got[:c.length], LKey: g.region.LKey()}}
				if op == capsule.IOWrite {
					wr.Op = rdmatransport.OpRead
				}
				wr.RemoteAddr, wr.RKey = cmd.SGL.Address+uint64(c.off), rdmatransport.RKey(cmd.SGL.Key())
			})
			r.until(c.name+" ends the queue", func() bool { return h.State() == StateClosed })
			if q.Err == nil || !bytes.Equal(m.Bytes(), before) {
				t.Errorf("%v, %s: request ended with %v, memory the same: %v", op, c.name, q.Err, bytes.Equal(m.Bytes(), before))
			}
			if op == capsule.IOWrite && bytes.Contains(got, before[at:at+16]) {
				t.Errorf("%s: the controller has read the host's memory", c.name)
			}
		}
	}
}

// TestGarbageInResponse is row 100: fields that this host does not use may have any value.
func TestGarbageInResponse(t *testing.T) {
	r := newRig(t, 0)
	q := transfer(capsule.IORead, r.hostMemory(4096, false), 0, 4096, 0)
	done := 0
	q.Done = func(*Request) { done++ }
	h, g, cmd := r.hostileTarget(HostConfig{}, q)
	b := make([]byte, capsule.CompletionSize)
	c := capsule.Completion{CID: cmd.CID, SQHD: 0xffff, SQID: 0xabcd}
	c.Encode(b)
	b[14] |= 1 // the phase tag
	g.send(b)
	r.until("the request ends", func() bool { return done == 1 })
	if q.Err != nil || !q.Completion.Status.OK() || h.State() != StateLive {
		t.Errorf("request ended with %v, %v; the queue is %v", q.Err, q.Completion.Status, h.State())
	}
}

// TestTwoResponses is row 95: the second response matches no command, and the first one counts.
func TestTwoResponses(t *testing.T) {
	for _, windows := range []bool{false, true} {
		r := newRig(t, 0)
		q := transfer(capsule.IORead, r.hostMemory(4096, windows), 0, 4096, 0)
		done := 0
		q.Done = func(*Request) { done++ }
		h, g, cmd := r.hostileTarget(HostConfig{Windows: windows}, q)
		for range 2 {
			b := make([]byte, capsule.CompletionSize)
			c := capsule.Completion{CID: cmd.CID}
			c.Encode(b)
			g.send(b)
		}
		r.until("the queue ends", func() bool { return h.State() == StateClosed })
		if done != 1 || !errors.Is(h.Err(), ErrProtocol) {
			t.Errorf("request came back %d times, the queue ended with %v", done, h.Err())
		}
	}
}

// TestWrongInvalidation is row 96: a window of another command.
func TestWrongInvalidation(t *testing.T) {
	r := newRig(t, 0)
	m := r.hostMemory(16384, true)
	q := transfer(capsule.IORead, m, 0, 4096, 0)
	h, g, first := r.hostileTarget(HostConfig{Windows: true}, q)
	other := transfer(capsule.IORead, m, 8192, 4096, 0)
	h.Submit(other)
	second, err := capsule.DecodeCommand(g.answer(1))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, capsule.CompletionSize)
	c := capsule.Completion{CID: first.CID}
	c.Encode(b)
	g.send(b, func(wr *rdmatransport.SendWR) {
		wr.Flags |= rdmatransport.FlagInvalidate
		wr.InvalidateKey = rdmatransport.RKey(second.SGL.Key())
	})
	r.until("the queue ends", func() bool { return h.State() == StateClosed })
	if !errors.Is(q.Err, ErrProtocol) || !errors.Is(other.Err, ErrProtocol) {
		t.Errorf("requests ended with %v and %v, want %v", q.Err, other.Err, ErrProtocol)
	}
}

// TestCIDsDiffer: a slot does not reuse an identifier soon.
func TestCIDsDiffer(t *testing.T) {
	var s hostSlot
	seen := map[capsule.CID]bool{}
	for range 1 << 12 {
		id := s.nextCID(4, 15)
		if seen[id] && len(seen) < 1<<12-1 {
			t.Fatalf("identifier %#x repeats after %d", uint16(id), len(seen))
		}
		if id&15 != 15 || id == 0xffff {
			t.Fatalf("identifier %#x", uint16(id))
		}
		seen[id] = true
	}
}
