package target

import (
	"errors"
	"slices"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

func setCache(on uint32) *hostCommand {
	return adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureVolatileWriteCache, Value: on}, nil)
}

func (h *hostQueue) wantCache(want uint64) {
	h.t.Helper()
	r := h.wantOK(adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: capsule.FeatureVolatileWriteCache}, nil))
	if r.result != want {
		h.t.Errorf("the write cache is %d, want %d", r.result, want)
	}
}

// wantDurable checks whether each command that changes blocks of namespace 2, whose store is s, has Force Unit
// Access.
func (h *hostQueue) wantDurable(s *fakeStore, want bool) {
	h.t.Helper()
	s.ops()
	h.wantOK(writeOf(2))
	h.wantOK(ioCommand(capsule.IOWriteZeroes, 2, capsule.ReadWrite{Blocks: 1}, nil))
	h.wantOK(copyCommand(2, capsule.Copy{SDLBA: 128}, capsule.CopyRange{SLBA: 64, Blocks: 8}))
	first, second := fusedPair(2, capsule.ReadWrite{SLBA: 64, Blocks: 8}, make([]byte, 4096), make([]byte, 4096))
	h.wantPair(capsule.StatusSuccess, capsule.StatusSuccess, first, second)
	n := 0
	for _, r := range s.ops() {
		if r.Op != backend.OpRead {
			n++
			if r.FUA != want {
				h.t.Errorf("operation %d has FUA %v, want %v", r.Op, r.FUA, want)
			}
		}
	}
	if n < 4 {
		h.t.Errorf("%d operations change something, want 4", n)
	}
}

// TestWriteCacheOff: when the write cache is disabled, every write of this controller is durable when it
// completes, and earlier writes are when the feature command completes.
func TestWriteCacheOff(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	admin, io := f.both()
	admin.wantCache(1)
	io.wantDurable(s, false)
	s.set(true, nil)
	off := admin.start(setCache(0))
	f.within(admin, "the flush is under way", func() bool { return s.inFlight() == 1 })
	off.wantPending()
	s.set(false, nil)
	if r := <-off.response; !r.status.OK() {
		t.Errorf("switched off: %v", r.status)
	}
	if ops := s.ops(); len(ops) != 1 || ops[0].Op != backend.OpFlush {
		t.Errorf("operations %+v, want a flush", ops)
	}
	admin.wantCache(0)
	io.wantDurable(s, true)
	_, other := f.connectAdmin(0)
	f.connectIO(other, 1, 1).wantDurable(s, false) // another controller has its own value
	admin.wantOK(setCache(1))
	admin.wantCache(1)
	io.wantDurable(s, false)
}

// TestWriteCacheStaysOn: the cache stays enabled if earlier writes cannot be made durable, and is enabled again
// after a reset.
func TestWriteCacheStaysOn(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	admin, id := f.connectAdmin(0)
	s.set(false, errors.New("disk is gone"))
	admin.wantStatus(capsule.StatusWriteFault, setCache(0))
	admin.wantCache(1)
	s.set(false, nil)
	admin.wantOK(setCache(0))
	admin.wantCache(0)
	admin.setCC(linuxCC)
	admin.setCC(linuxCC.WithEnable(true))
	admin.wantCache(1)
	f.connectIO(id, 1, 1).wantDurable(s, false)
}

// TestWriteCacheOffTwice: a second command to disable the write cache, during the flush of the first one, does not
// succeed unless the data is durable.
func TestWriteCacheOffTwice(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	admin, io := f.both()
	s.set(true, errors.New("disk is gone"))
	one := admin.start(setCache(0))
	f.within(admin, "the flush is under way", func() bool { return s.inFlight() == 1 })
	two := admin.start(setCache(0))
	admin.wantCache(1)
	s.set(false, errors.New("disk is gone"))
	for _, c := range []*hostCommand{one, two} {
		if r := <-c.response; r.status.OK() {
			t.Errorf("switched off: %v, though what was written before is not durable", r.status)
		}
	}
	s.set(false, nil)
	admin.wantCache(1)
	io.wantDurable(s, false)
}

// TestWriteCacheStaysOff: a command to disable the write cache that fails late does not revert another one that
// has succeeded meanwhile.
func TestWriteCacheStaysOff(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	admin, io := f.both()
	s.set(true, nil)
	one, two := admin.start(setCache(0)), admin.start(setCache(0))
	f.within(admin, "the flushes are under way", func() bool { return s.inFlight() == 2 })
	s.mu.Lock()
	for _, q := range s.queues {
		if len(q.taken) == 2 {
			slices.Reverse(q.taken)
			q.due = 1
			q.notify()
		}
	}
	s.mu.Unlock()
	if r := <-two.response; !r.status.OK() {
		t.Errorf("the second: %v", r.status)
	}
	s.set(false, errors.New("input/output error"))
	if r := <-one.response; r.status != capsule.StatusWriteFault {
		t.Errorf("the first: %v", r.status)
	}
	s.set(false, nil)
	admin.wantCache(0)
	io.wantDurable(s, true)
}

// TestWriteCacheOffBehind: a write that has begun before the write cache is disabled, and ends after that, is
// durable when it completes.
func TestWriteCacheOffBehind(t *testing.T) {
	for _, x := range []struct {
		name string
		copy bool // the store can copy
		cmd  *hostCommand
	}{
		{"write", false, writeOf(2)},
		{"write zeroes", false, ioCommand(capsule.IOWriteZeroes, 2, capsule.ReadWrite{Blocks: 1}, nil)},
		{"copy by the store", true, copyCommand(2, capsule.Copy{SDLBA: 128}, capsule.CopyRange{SLBA: 64, Blocks: 8})},
		{"copy by reads and writes", false, copyCommand(2, capsule.Copy{SDLBA: 128}, capsule.CopyRange{SLBA: 64, Blocks: 8})},
	} {
		t.Run(x.name, func(t *testing.T) {
			f := newFixture(t)
			s := newFakeStore(1 << 20)
			s.info.Copy = x.copy
			f.export(s)
			admin, io := f.both()
			s.set(true, nil)
			io.start(x.cmd)
			f.within(io, "it is under way", func() bool { return s.inFlight() == 1 })
			if s.ops()[0].Op == backend.OpRead {
				s.step()
				f.within(io, "its write is", func() bool { return s.inFlight() == 1 && len(s.ops()) == 1 })
			}
			s.switchOff(f, admin)
			s.step()
			f.within(io, "a flush follows", func() bool { ops := s.ops(); return len(ops) == 1 && ops[0].Op == backend.OpFlush })
			x.cmd.wantPending()
			s.set(false, errors.New("disk is gone"))
			if r := <-x.cmd.response; r.status.OK() {
				t.Error("it succeeds, though what it has written is not durable")
			}
		})
	}
}

// TestFusedWriteCacheOffBehind is the same for a fused operation.
func TestFusedWriteCacheOffBehind(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	admin, io := f.both()
	s.set(true, nil)
	first, second := fusedPair(2, capsule.ReadWrite{SLBA: 64, Blocks: 8}, make([]byte, 4096), make([]byte, 4096))
	io.start(first)
	io.start(second)
	f.within(io, "it is under way", func() bool { return s.inFlight() == 1 })
	s.switchOff(f, admin)
	s.step()
	f.within(io, "a flush follows", func() bool { ops := s.ops(); return len(ops) == 1 && ops[0].Op == backend.OpFlush })
	second.wantPending()
	s.set(false, nil)
	if a, b := <-first.response, <-second.response; !a.status.OK() || !b.status.OK() {
		t.Errorf("%v and %v", a.status, b.status)
	}
}

// switchOff disables the write cache while the store holds one operation, which does not end by that.
func (s *fakeStore) switchOff(f *fixture, admin *hostQueue) {
	f.t.Helper()
	off := admin.start(setCache(0))
	f.within(admin, "the flush is under way", func() bool { return s.inFlight() == 2 })
	s.mu.Lock()
	for _, q := range s.queues {
		if i := slices.IndexFunc(q.taken, func(r backend.Request) bool { return r.Op == backend.OpFlush }); i >= 0 {
			q.taken[0], q.taken[i] = q.taken[i], q.taken[0]
			q.due = 1
			q.notify()
		}
	}
	s.mu.Unlock()
	if r := <-off.response; !r.status.OK() {
		f.t.Fatalf("switched off: %v", r.status)
	}
	s.ops()
}

// TestCopyWriteCacheOffWithin: a copy with one part written before the write cache was disabled, and one after, is
// flushed once.
func TestCopyWriteCacheOffWithin(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	s.info.Copy = true
	f.export(s)
	admin, io := f.both()
	s.set(true, nil)
	cmd := io.start(copyCommand(2, capsule.Copy{SDLBA: 128}, capsule.CopyRange{SLBA: 64, Blocks: 8}, capsule.CopyRange{SLBA: 80, Blocks: 8}))
	f.within(io, "its first part is under way", func() bool { return s.inFlight() == 1 })
	s.switchOff(f, admin)
	for _, want := range []backend.Request{{Op: backend.OpCopy, FUA: true}, {Op: backend.OpFlush}} {
		s.step()
		var got []backend.Request
		f.within(io, "more follows", func() bool { got = append(got, s.ops()...); return len(got) > 0 })
		if len(got) != 1 || got[0].Op != want.Op || got[0].FUA != want.FUA {
			t.Fatalf("%+v follows, want %v with FUA %v", got, want.Op, want.FUA)
		}
	}
	s.set(false, nil)
	if r := <-cmd.response; !r.status.OK() {
		t.Error(r.status)
	}
}

// TestWriteCacheOffAway: disabling the write cache covers writes to a namespace that is away by now, or it fails:
// while its flush is under way, and if its group was lost.
func TestWriteCacheOffAway(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	admin, io := f.both()
	io.wantOK(writeOf(2))
	s.set(true, nil)
	ended := make(chan error, 1)
	go func() { ended <- f.sub.SuspendNamespace(2) }()
	f.within(admin, "its flush is under way", func() bool { return s.inFlight() == 1 })
	admin.wantStatus(elsewhere, setCache(0))
	admin.wantCache(1)
	s.set(false, nil)
	f.must(<-ended)
	admin.wantOK(setCache(0))
	admin.wantCache(0)

	f, g := withGateway(t)
	f.must(g.Serve(1, 1))
	f.export(newFakeStore(1 << 20))
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	a.io.wantOK(writeOf(2))
	f.must(g.Drain(t.Context(), 1))
	a.admin.wantOK(setCache(0))
	a.admin.wantOK(setCache(1))
	f.must(g.Serve(1, 2))
	f.must(g.Stop(1))
	f.must(g.Release(t.Context(), 1))
	a.admin.wantStatus(elsewhere, setCache(0))
}
