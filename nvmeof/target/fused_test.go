package target

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// fusedPair is a Compare and a Write of the same blocks.
func fusedPair(nsid capsule.NSID, rw capsule.ReadWrite, expected, next []byte) (first, second *hostCommand) {
	first = ioCommand(capsule.IOCompare, nsid, rw, expected)
	second = ioCommand(capsule.IOWrite, nsid, rw, next)
	first.sqe.Flags, second.sqe.Flags = capsule.CommandFlags(capsule.FuseFirst), capsule.CommandFlags(capsule.FuseSecond)
	return first, second
}

// wantPair sends both and checks how they complete.
func (h *hostQueue) wantPair(a, b capsule.Status, first, second *hostCommand) {
	h.t.Helper()
	h.start(first).wantPending()
	h.start(second)
	if r := <-first.response; r.status != a {
		h.t.Errorf("first: %v, want %v", r.status, a)
	}
	if r := <-second.response; r.status != b {
		h.t.Errorf("second: %v, want %v", r.status, b)
	}
}

func TestFused(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	_, io := f.both()
	const ok, failed, miscompare = capsule.StatusSuccess, capsule.StatusFailedFused, capsule.StatusCompareFailure
	for _, nsid := range []capsule.NSID{1, 2} {
		for _, n := range []int{512, 1536, maxFused} {
			rw := capsule.ReadWrite{SLBA: 5, Blocks: uint32(n / 512)}
			old, next := pattern(n, 1), pattern(n, 2)
			io.wantOK(ioCommand(capsule.IOWrite, nsid, rw, old))
			first, second := fusedPair(nsid, rw, next, old)
			io.wantPair(miscompare, failed, first, second)
			for i := range 4 { // data in host memory and in the capsules
				first, second := fusedPair(nsid, rw, old, next)
				if i&1 != 0 {
					first.inCapsule, first.memory = first.memory, nil
				}
				if i&2 != 0 {
					second.inCapsule, second.memory = second.memory, nil
				}
				io.wantPair(ok, ok, first, second)
				got := make([]byte, n)
				io.wantOK(ioCommand(capsule.IORead, nsid, rw, got))
				if !bytes.Equal(got, next) {
					t.Fatal("something else was written")
				}
				old, next = next, pattern(n, byte(i)+3)
			}
		}
	}
	s.ops()
	s.set(false, errors.New("input/output error"))
	first, second := fusedPair(2, capsule.ReadWrite{Blocks: 1, FUA: true}, make([]byte, 512), make([]byte, 512))
	io.wantPair(failed, capsule.StatusWriteFault, first, second)
	if ops := s.ops(); len(ops) != 1 || !ops[0].FUA || ops[0].Op != backend.OpCompareAndWrite {
		t.Errorf("operations %+v", ops)
	}
	f.wantNothingHeld(io)
}

// TestBadFused is row 64.
func TestBadFused(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	admin, io := f.both()
	const failed, missing = capsule.StatusFailedFused, capsule.StatusMissingFused
	rw := capsule.ReadWrite{Blocks: 1}
	block := func() []byte { return make([]byte, 512) }
	pair := func(change func(first, second *hostCommand)) (first, second *hostCommand) {
		first, second = fusedPair(2, rw, block(), block())
		change(first, second)
		return first, second
	}
	bad := capsule.StatusSGLTypeInvalid | dnr
	for _, c := range []struct {
		name   string
		a, b   capsule.Status
		change func(first, second *hostCommand)
	}{
		{"first is no Compare", invalidField, failed, func(a, _ *hostCommand) { a.sqe.Opcode = capsule.Opcode(capsule.IORead) }},
		{"second is no Write", failed, invalidField, func(_, b *hostCommand) { b.sqe.Opcode = capsule.Opcode(capsule.IOCompare) }},
		{"other blocks", failed, invalidField, func(_, b *hostCommand) { capsule.ReadWrite{SLBA: 1, Blocks: 1}.Put(&b.sqe) }},
		{"other namespace", failed, invalidField, func(_, b *hostCommand) { b.sqe.NSID = 1 }},
		{"no namespace", capsule.StatusInvalidNamespace | dnr, failed, func(a, b *hostCommand) { a.sqe.NSID, b.sqe.NSID = 9, 9 }},
		{"first out of range", capsule.StatusLBAOutOfRange | dnr, failed, func(a, _ *hostCommand) { capsule.ReadWrite{SLBA: 1 << 60, Blocks: 1}.Put(&a.sqe) }},
		{"second's data too short", failed, capsule.StatusSGLDataLength | dnr, func(_, b *hostCommand) { b.memory = b.memory[:100] }},
		{"first malformed", bad, failed, func(a, _ *hostCommand) { a.wrong = bad }},
		{"second malformed", failed, bad, func(_, b *hostCommand) { b.wrong = bad }},
		{"longer than allowed", failed, invalidField, func(a, b *hostCommand) {
			long := capsule.ReadWrite{Blocks: maxFused/512 + 1}
			long.Put(&a.sqe)
			long.Put(&b.sqe)
			a.memory, b.memory = make([]byte, maxFused+512), make([]byte, maxFused+512)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			io.t = t
			first, second := pair(c.change)
			io.wantPair(c.a, c.b, first, second)
		})
	}
	io.t = t
	if ops := s.ops(); len(ops) != 0 {
		t.Errorf("a bad command touched %+v", ops)
	}
	_, alone := pair(func(_, _ *hostCommand) {})
	io.wantStatus(missing, alone)
	first, _ := pair(func(_, _ *hostCommand) {})
	again, second := pair(func(_, _ *hostCommand) {})
	io.start(first).wantPending()
	io.start(again).wantPending() // first twice
	if r := <-first.response; r.status != missing {
		t.Errorf("the first of two firsts: %v", r.status)
	}
	io.wantOK(ioCommand(capsule.IORead, 1, rw, block())) // first and then another
	if r := <-again.response; r.status != missing {
		t.Errorf("first without a second: %v", r.status)
	}
	io.wantStatus(missing, second)
	reserved, _ := pair(func(_, _ *hostCommand) {})
	reserved.sqe.Flags = capsule.CommandFlags(capsule.FuseReserved)
	io.wantStatus(invalidField, reserved)
	for fuse := capsule.CommandFlags(1); fuse < 4; fuse++ {
		c := adminCommand(capsule.AdminKeepAlive, nil, nil)
		c.sqe.Flags = fuse
		admin.wantStatus(invalidField, c)
	}
	f.wantNothingHeld(io)
}

// TestFusedReplaced: a namespace that replaces another one between the halves of a fused operation gets neither
// half. Held by a pause there, the second would otherwise be executed alone.
func TestFusedReplaced(t *testing.T) {
	f := newFixture(t)
	s, other := newFakeStore(1<<20), newFakeStore(1<<20)
	f.export(s)
	paused := f.export(other)
	_, io := f.both()
	io.identify(3)
	f.must(paused.Pause(0))
	before := f.sub.table()
	first, second := fusedPair(2, capsule.ReadWrite{Blocks: 1}, make([]byte, 512), pattern(512, 1))
	second.looked = func() { f.sub.namespaces.Store(before.With(2, paused.ns)) }
	io.wantPair(capsule.StatusSuccess, capsule.StatusSuccess, first, second)
	f.must(paused.Resume())
	io.turns(2)
	f.sub.namespaces.Store(before)
	if ops := s.ops(); len(ops) != 1 || ops[0].Op != backend.OpCompareAndWrite {
		t.Errorf("operations %+v", ops)
	}
	if ops := other.ops(); len(ops) != 0 {
		t.Errorf("the other namespace has got %+v", ops)
	}
	f.wantNothingHeld(io)
}

// TestFusedQueueLost is rows 64 and 71: at whatever stage a fused operation's queue is lost, both halves complete
// once.
func TestFusedQueueLost(t *testing.T) {
	for name, prepare := range map[string]func(s *fakeStore, first, second *hostCommand) (send int){
		"first alone":     func(_ *fakeStore, _, _ *hostCommand) int { return 1 },
		"first fetching":  func(_ *fakeStore, a, _ *hostCommand) int { a.holdFetch = true; return 2 },
		"second fetching": func(_ *fakeStore, _, b *hostCommand) int { b.holdFetch = true; return 2 },
		"in the store":    func(s *fakeStore, _, _ *hostCommand) int { s.set(true, nil); return 2 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := newFakeStore(1 << 20)
			f.export(s)
			_, io := f.both()
			first, second := fusedPair(2, capsule.ReadWrite{Blocks: 1}, make([]byte, 512), make([]byte, 512))
			n := prepare(s, first, second)
			io.start(first)
			if n == 2 {
				io.start(second)
			}
			io.turns(2)
			io.fail(&rdmaError{})
			io.turns(2)
			s.set(false, nil)
			<-io.closed
			if first.answers > 1 || second.answers > 1 {
				t.Errorf("answered %d and %d times", first.answers, second.answers)
			}
			f.wantNothingHeld(io)
		})
	}
}

// TestFusedIsAtomic: two queues on two shards increment a counter in one block by fused operations, and no
// increment is lost.
func TestFusedIsAtomic(t *testing.T) {
	f := newFixture(t)
	_, id := f.connectAdmin(0)
	queues := []*hostQueue{f.connectIO(id, 1, 0), f.connectIO(id, 2, 1)}
	rw := capsule.ReadWrite{SLBA: 9, Blocks: 1}
	const rounds = 60
	var wg sync.WaitGroup
	for _, io := range queues {
		wg.Go(func() {
			for n := 0; n < rounds; {
				seen, next := make([]byte, 512), make([]byte, 512)
				io.wantOK(ioCommand(capsule.IORead, 1, rw, seen))
				copy(next, seen)
				if next[0]++; next[0] == 0 {
					next[1]++
				}
				first, second := fusedPair(1, rw, seen, next)
				a, b := io.start(first), io.start(second)
				if (<-a.response).status.OK() {
					n++
				}
				<-b.response
			}
		})
	}
	wg.Wait()
	got := make([]byte, 512)
	queues[0].wantOK(ioCommand(capsule.IORead, 1, rw, got))
	if n := int(got[0]) + int(got[1])<<8; n != 2*rounds {
		t.Errorf("counted to %d, want %d", n, 2*rounds)
	}
}

// TestFusedWhilePaused: a paused namespace holds both halves, which then begin together, or end with their queue.
func TestFusedWhilePaused(t *testing.T) {
	f := newFixture(t)
	_, io := f.both()
	ns := f.sub.Namespaces()[0]
	if err := ns.Pause(0); err != nil {
		t.Fatal(err)
	}
	first, second := fusedPair(1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512), pattern(512, 1))
	io.start(first)
	io.start(second).wantPending()
	first.wantPending()
	if err := ns.Resume(); err != nil {
		t.Fatal(err)
	}
	if a, b := <-first.response, <-second.response; !a.status.OK() || !b.status.OK() {
		t.Errorf("after the pause: %v and %v", a.status, b.status)
	}
	if err := ns.Pause(0); err != nil {
		t.Fatal(err)
	}
	first, second = fusedPair(1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512), make([]byte, 512))
	io.start(first)
	io.start(second).wantPending()
	io.fail(&rdmaError{})
	<-io.closed
	if first.answers != 1 || second.answers != 1 {
		t.Errorf("answered %d and %d times", first.answers, second.answers)
	}
	if err := ns.Resume(); err != nil {
		t.Fatal(err)
	}
	f.wantNothingHeld(io)
}
