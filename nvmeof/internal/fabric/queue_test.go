package fabric

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
)

// TestTransfers writes and reads back all sizes with every kind of data transfer.
func TestTransfers(t *testing.T) {
	sizes := []int{1, 512, 4096, 4097, 8192, 65536, 1 << 20}
	for _, windows := range []bool{false, true} {
		for _, inCapsule := range []int{0, 8192} {
			for _, budget := range []int{0, 20000} {
				for _, cut := range []struct{ pieces, readSGE int }{{1, 0}, {3, 0}, {3, 1}} {
					pieces := cut.pieces
					name := fmt.Sprintf("windows %v, in-capsule %d, budget %d, pieces %d, reads into %d", windows, inCapsule, budget, pieces, cut.readSGE)
					t.Run(name, func(t *testing.T) {
						attrs := rdmatest.Attrs()
						attrs.MaxReadSGE = cut.readSGE
						r := newRigOf(t, attrs, budget)
						s := r.newStore(2 << 20)
						s.pieces = pieces
						h := r.queues(s, TargetConfig{InCapsule: inCapsule}, HostConfig{InCapsule: inCapsule, Windows: windows})
						m := r.hostMemory(2<<20, windows)
						for i, n := range sizes {
							fill(m.Bytes()[:n], i)
							write := transfer(capsule.IOWrite, m, 0, n, 11)
							r.run(h, write)
							if write.Err != nil || !write.Completion.Status.OK() {
								t.Fatalf("write of %d: %v, %v", n, write.Err, write.Completion.Status)
							}
							if !bytes.Equal(s.mem[11:11+n], m.Bytes()[:n]) {
								t.Fatalf("write of %d left something else", n)
							}
							clear(m.Bytes()[1<<20:])
							read := transfer(capsule.IORead, m, 1<<20, n, 11)
							r.run(h, read)
							if read.Err != nil || !read.Completion.Status.OK() {
								t.Fatalf("read of %d: %v, %v", n, read.Err, read.Completion.Status)
							}
							if !bytes.Equal(m.Bytes()[1<<20:][:n], m.Bytes()[:n]) {
								t.Fatalf("read of %d brought something else", n)
							}
						}
						r.settle()
						if s.given != 2*len(sizes) || s.done != s.given {
							t.Errorf("%d commands given, %d done, want %d of each", s.given, s.done, 2*len(sizes))
						}
						if u := r.target.shard.Budget().Used() + r.host.shard.Budget().Used(); u != 0 {
							t.Errorf("%d bytes of the receive budgets are not given back", u)
						}
					})
				}
			}
		}
	}
}

// TestDeep keeps more requests waiting than the queue has entries.
func TestDeep(t *testing.T) {
	for _, windows := range []bool{false, true} {
		r := newRig(t, 30000)
		s := r.newStore(1 << 20)
		fill(s.mem, 3)
		h := r.queues(s, TargetConfig{Depth: 8, InCapsule: 4096}, HostConfig{Depth: 8, InCapsule: 4096, Windows: windows})
		m := r.hostMemory(1<<20, windows)
		var rs []*Request
		for i := range 200 {
			op, n := capsule.IORead, 1000+13*i
			if i%3 == 0 {
				op, n = capsule.IOWrite, 5000
			}
			at := i * 5000
			copy(m.Bytes()[at:at+5000], s.mem[at:at+5000])
			rs = append(rs, transfer(op, m, at, n, uint32(at)))
		}
		most := 0
		left := len(rs)
		for _, q := range rs {
			q.Done = func(q *Request) {
				left--
				if q.Err != nil || !q.Completion.Status.OK() {
					t.Errorf("request: %v, %v", q.Err, q.Completion.Status)
				}
			}
			if err := h.Submit(q); err != nil {
				t.Fatal(err)
			}
		}
		r.until("200 requests end", func() bool { most = max(most, h.Outstanding()); return left == 0 })
		if most > 7 {
			t.Errorf("%d commands outstanding on a queue of 8 entries", most)
		}
		if !bytes.Equal(m.Bytes()[:200*5000], s.mem[:200*5000]) {
			t.Error("data differs")
		}
	}
}

// TestSQHD: SQHD wraps at the submission queue's size, and is FFFFh without flow control.
func TestSQHD(t *testing.T) {
	r := newRig(t, 0)
	s := r.newStore(4096)
	h := r.queues(s, TargetConfig{}, HostConfig{})
	s.queue.SetEntries(3)
	for i := range 10 {
		q := transfer(capsule.IOFlush, nil, 0, 0, 0)
		r.run(h, q)
		if got, want := int(q.Completion.SQHD), (i+1)%3; got != want {
			t.Errorf("response %d has SQHD %d, want %d", i, got, want)
		}
	}
	s.queue.DisableFlowControl()
	q := transfer(capsule.IOFlush, nil, 0, 0, 0)
	r.run(h, q)
	if q.Completion.SQHD != 0xffff {
		t.Errorf("SQHD %#x without flow control, want ffff", q.Completion.SQHD)
	}
}

// TestKeysDie is row 99: after a request its key is invalid, whichever side invalidates it.
func TestKeysDie(t *testing.T) {
	for _, plain := range []bool{false, true} {
		r := newRig(t, 0)
		s := r.newStore(64 << 10)
		h := r.queues(s, TargetConfig{PlainSend: plain}, HostConfig{Windows: true})
		m := r.hostMemory(64<<10, true)
		var last remote
		s.onDone = func(c *Command) { last = c.data.remotes[0] }
		for range 40 { // more than windows
			read := transfer(capsule.IORead, m, 0, 4096, 0)
			r.run(h, read)
			if read.Err != nil {
				t.Fatal(read.Err)
			}
			r.settle()
		}
		// The controller uses the key of the last command once more.
		err := s.queue.qp.PostSend([]rdmatransport.SendWR{{
			ID: s.queue.slot.ID(makeTag(tagWrite, 0)), Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled,
			SGL:        []rdmatransport.SGE{{Buf: s.mem[:8], LKey: s.region.LKey()}},
			RemoteAddr: last.addr, RKey: last.key,
		}})
		if err != nil {
			t.Fatal(err)
		}
		r.until("the queue fails", func() bool { return s.closed == 1 })
		var transfer *TransferError
		if !errors.As(s.failed, &transfer) || transfer.Status != rdmatransport.StatusRemoteAccess {
			t.Errorf("plain %v: a dead key gave %v, want %v", plain, s.failed, rdmatransport.StatusRemoteAccess)
		}
	}
}

// TestBuffersAreOneWay is row 98: a controller cannot read what a Read fills, nor write into what a Write sends, with
// and without windows.
func TestBuffersAreOneWay(t *testing.T) {
	for _, windows := range []bool{false, true} {
		for _, op := range []capsule.IOOpcode{capsule.IORead, capsule.IOWrite} {
			r := newRig(t, 0)
			s := r.newStore(64 << 10)
			s.hold = true
			h := r.queues(s, TargetConfig{}, HostConfig{Windows: windows})
			m := r.hostMemory(64<<10, windows)
			q := transfer(op, m, 0, 4096, 0)
			if err := h.Submit(q); err != nil {
				t.Fatal(err)
			}
			r.until("the command arrives", func() bool { return len(s.held) == 1 })
			wrong := rdmatransport.OpRead
			if op == capsule.IOWrite {
				wrong = rdmatransport.OpWrite
			}
			to := s.held[0].data.remotes[0]
			err := s.queue.qp.PostSend([]rdmatransport.SendWR{{
				ID: s.queue.slot.ID(makeTag(tagWrite, 0)), Op: wrong, Flags: rdmatransport.FlagSignaled,
				SGL:        []rdmatransport.SGE{{Buf: s.mem[:8], LKey: s.region.LKey()}},
				RemoteAddr: to.addr, RKey: to.key,
			}})
			if err != nil {
				t.Fatal(err)
			}
			r.until("both ends fail", func() bool { return s.failed != nil && h.State() == StateClosed })
			var transfer *TransferError
			if !errors.As(s.failed, &transfer) || transfer.Status != rdmatransport.StatusRemoteAccess {
				t.Errorf("windows %v, %v: the wrong direction gave %v", windows, op, s.failed)
			}
			s.held[0].Respond(0, 0)
		}
	}
}

func TestQueueAllocates(t *testing.T) {
	for _, windows := range []bool{false, true} {
		r := newRig(t, 1<<20)
		s := r.newStore(64 << 10)
		s.answers = nil
		handler := &quiet{s: s}
		h := r.queues(s, TargetConfig{InCapsule: 4096}, HostConfig{InCapsule: 4096, Windows: windows})
		s.queue.handler = handler
		m := r.hostMemory(64<<10, windows)
		rs := []*Request{
			transfer(capsule.IORead, m, 0, 4096, 0), transfer(capsule.IOWrite, m, 4096, 4096, 4096),
			transfer(capsule.IOWrite, m, 8192, 8192, 8192), transfer(capsule.IOFlush, nil, 0, 0, 0),
		}
		left := 0
		done := func(*Request) { left-- }
		round := func() {
			left = len(rs)
			for _, q := range rs {
				q.Done = done
				h.Submit(q)
			}
			for left > 0 {
				r.turn()
			}
		}
		for range 100 {
			round()
		}
		if n := testing.AllocsPerRun(200, round); n != 0 {
			t.Errorf("windows %v: %.1f allocations for four commands, want none", windows, n)
		}
	}
}

// quiet is a handler like store that records nothing.
type quiet struct {
	s   *store
	sge [1]rdmatransport.SGE
}

func (h *quiet) pieces(c *Command) []rdmatransport.SGE {
	off := int(c.SQE.CDW10)
	h.sge[0] = rdmatransport.SGE{Buf: h.s.mem[off : off+c.Length()], LKey: h.s.region.LKey()}
	return h.sge[:]
}

func (h *quiet) Command(c *Command) {
	switch {
	case capsule.IOOpcode(c.SQE.Opcode) == capsule.IORead:
		c.RespondData(h.pieces(c), 0)
	case c.Remote():
		c.Fetch(h.pieces(c))
	default:
		c.Respond(capsule.StatusSuccess, 0)
	}
}

func (h *quiet) Slow() {}

func (h *quiet) Reused(*Command) bool { return false }

func (h *quiet) Fetched(c *Command) { c.Respond(capsule.StatusSuccess, 0) }
func (h *quiet) Done(*Command)      {}
func (h *quiet) Failed(error)       {}
func (h *quiet) Closed()            {}
