package target

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

func (f *fixture) leased() (shared, exclusive bool) {
	shared = f.store.TryLease(0, 4096, false)
	if shared {
		f.store.Release(0, 4096, false)
	}
	exclusive = f.store.TryLease(0, 4096, true)
	if exclusive {
		f.store.Release(0, 4096, true)
	}
	return shared, exclusive
}

// TestReadHoldsItsLeaseUntilTheResponseIsAcknowledged: a lost packet is retransmitted from the store's memory, so
// a write must wait.
func TestReadHoldsItsLeaseUntilTheResponseIsAcknowledged(t *testing.T) {
	f := newFixture(t)
	_, io := f.both()
	rw := capsule.ReadWrite{Blocks: 8}
	io.call(func() { io.holdAck = true })
	io.wantOK(ioCommand(capsule.IORead, 1, rw, make([]byte, 4096)))
	io.call(func() {}) // the response is being sent
	if shared, exclusive := f.leased(); !shared || exclusive {
		t.Errorf("after the response: shared lease free %v, exclusive %v; want readers only", shared, exclusive)
	}
	write := io.start(ioCommand(capsule.IOWrite, 1, rw, bytes.Repeat([]byte{9}, 4096)))
	io.turns(10) // the shard retries in each
	write.wantPending()
	// Commands for other ranges do not wait, even behind it.
	elsewhere := ioCommand(capsule.IOWrite, 1, capsule.ReadWrite{SLBA: 1 << 10, Blocks: 8}, make([]byte, 4096))
	io.wantOK(elsewhere)
	io.ack()
	if r := <-write.response; !r.status.OK() {
		t.Errorf("the write that waited: %v", r.status)
	}
	io.call(func() {})
	if shared, exclusive := f.leased(); !shared || !exclusive {
		t.Errorf("at the end: shared lease free %v, exclusive %v", shared, exclusive)
	}
}

// TestLeaseDoesNotWaitForThePeer: a command that waits for blocks that a host has read and does not acknowledge
// gets them soon: the data that may have to be retransmitted is copied. If there is no buffer for that, or the
// device reads the memory by itself, the host has a second before its queue ends. Its further Reads take no leases
// for a while, even after it has reconnected.
func TestLeaseDoesNotWaitForThePeer(t *testing.T) {
	rw := capsule.ReadWrite{Blocks: 8}
	for _, c := range []struct {
		name    string
		movable bool
		full    bool // no buffer is free
	}{
		{"copied", true, false},
		{"no buffer", true, true},
		{"device reads the memory", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				admin, id := f.connectAdmin(0)
				slow, writer := f.connectIO(id, 1, 0), f.connectIO(id, 2, 1)
				slow.call(func() { slow.holdAck, slow.movable = true, c.movable })
				slow.wantOK(ioCommand(capsule.IORead, 1, rw, make([]byte, 4096)))
				var taken []shard.Buffer
				if c.full {
					slow.call(func() {
						for b, ok := slow.q.shard.Arena().Alloc(4096); ok; b, ok = slow.q.shard.Arena().Alloc(4096) {
							taken = append(taken, b)
						}
					})
				}
				for _, other := range []*hostCommand{
					ioCommand(capsule.IOWrite, 1, rw, bytes.Repeat([]byte{9}, 4096)),
					ioCommand(capsule.IOWriteZeroes, 1, rw, nil), // it waits in the store
				} {
					began := time.Now()
					writer.wantOK(other)
					if d := time.Since(began); d > 10*time.Millisecond && c.movable && !c.full || d > 1100*time.Millisecond {
						t.Errorf("a write waited for %v", d)
					}
					if c.movable && !c.full {
						slow.wantOK(ioCommand(capsule.IORead, 1, rw, make([]byte, 4096)))
						if shared, exclusive := f.leased(); !shared || !exclusive {
							t.Error("a Read of the late host leases blocks")
						}
					}
				}
				copied := uint64(0)
				slow.call(func() {
					copied = slow.q.counts.copied
					for _, b := range taken {
						b.Release()
					}
				})
				switch c.movable && !c.full {
				case true:
					if copied != 1 || slow.ended {
						t.Errorf("%d Reads were copied, queue ended %v", copied, slow.ended)
					}
					slow.ack()
				default:
					<-slow.closed
					if f.logs.FilterMessageSnippet("does not acknowledge the data of a Read").Len() != 1 {
						t.Error("no line says why the queue ended")
					}
				}
				admin.lose()
				<-writer.closed
				f.wantLateness(rw)
				f.close2(t)
			})
		})
	}
}

// wantLateness connects a host that is late, whose Reads take no leases for a while.
func (f *fixture) wantLateness(rw capsule.ReadWrite) {
	f.t.Helper()
	_, id := f.connectAdmin(0)
	back := f.connectIO(id, 1, 0)
	read := func() (leases bool) {
		back.call(func() { back.holdAck = true })
		back.wantOK(ioCommand(capsule.IORead, 1, rw, make([]byte, 4096)))
		_, exclusive := f.leased()
		back.ack()
		return !exclusive
	}
	if read() {
		f.t.Error("the host leases again as soon as it is back")
	}
	time.Sleep(lateFor)
	if !read() {
		f.t.Error("the host leases nothing any more")
	}
}

// TestPauseDoesNotWaitForThePeer is the same for the pause of the namespace.
func TestPauseDoesNotWaitForThePeer(t *testing.T) {
	for name, movable := range map[string]bool{"copied": true, "queue ends": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				_, io := f.both()
				io.call(func() { io.holdAck, io.movable = true, movable })
				io.wantOK(ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096)))
				if err := f.sub.Namespaces()[0].Pause(0); err != nil {
					t.Error(err)
				}
				io.call(func() {
					if io.ended == movable {
						t.Errorf("the queue has ended: %v", io.ended)
					}
				})
				f.close2(t)
			})
		})
	}
}

// TestConflictingCommandsKeepTheirOrder: a waiting write is not overtaken by a later read of the same blocks,
// although that could get its lease.
func TestConflictingCommandsKeepTheirOrder(t *testing.T) {
	f := newFixture(t)
	_, io := f.both()
	rw := capsule.ReadWrite{Blocks: 8}
	if !f.store.TryLease(0, 4096, false) {
		t.Fatal("no lease")
	}
	write := io.start(ioCommand(capsule.IOWrite, 1, rw, bytes.Repeat([]byte{5}, 4096)))
	read := io.start(ioCommand(capsule.IORead, 1, rw, make([]byte, 4096)))
	io.turns(10)
	write.wantPending()
	read.wantPending()
	f.store.Release(0, 4096, false)
	<-read.response
	if read.memory[0] != 5 || read.memory[4095] != 5 {
		t.Error("the read overtook the write")
	}
}

// TestOverlappingWritesKeepTheirOrder: the second write's own blocks are free, but it must not be executed before
// the first, which covers them too.
func TestOverlappingWritesKeepTheirOrder(t *testing.T) {
	f := newFixture(t)
	_, io := f.both()
	if !f.store.TryLease(0, 4096, false) {
		t.Fatal("no lease")
	}
	first := io.start(ioCommand(capsule.IOWrite, 1, capsule.ReadWrite{Blocks: 16}, bytes.Repeat([]byte{1}, 8192)))
	second := io.start(ioCommand(capsule.IOWrite, 1, capsule.ReadWrite{SLBA: 8, Blocks: 8}, bytes.Repeat([]byte{2}, 4096)))
	io.turns(10)
	first.wantPending()
	second.wantPending()
	f.store.Release(0, 4096, false)
	<-first.response
	<-second.response
	got := make([]byte, 8192)
	io.wantOK(ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 16}, got))
	if got[0] != 1 || got[4096] != 2 {
		t.Errorf("blocks are of writes %d and %d", got[0], got[4096])
	}
}

// TestBuffersRunOut: when all buffers are in use, commands wait in order, and a queue that ends leaves no waiter
// behind (row 112).
func TestBuffersRunOut(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Arena = 1 << 20 })
	s := newFakeStore(4 << 20)
	f.export(s)
	_, id := f.connectAdmin(0)
	first, second := f.connectIO(id, 1, 1), f.connectIO(id, 2, 1)
	big := func(h *hostQueue) *hostCommand {
		return h.start(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 2048}, make([]byte, 1<<20)))
	}
	s.set(true, nil)
	holder := big(first)
	doomed := big(first)
	heir := big(second)
	holder.wantPending()
	heir.wantPending()
	if n := s.inFlight(); n != 1 {
		t.Errorf("%d writes at the store, want the one with a buffer", n)
	}
	first.fail(&rdmaError{})
	first.call(func() {})
	s.set(false, nil)
	<-first.closed
	if r := <-heir.response; !r.status.OK() {
		t.Errorf("the other queue's write: %v", r.status)
	}
	if doomed.answers != 1 || holder.answers != 1 {
		t.Errorf("answered %d and %d times, want once", doomed.answers, holder.answers)
	}
	second.call(func() {
		if free := second.q.shard.Arena().Free(); free != 1<<20 {
			t.Errorf("%d bytes of buffers free, want all", free)
		}
	})
}

// TestBackendQueueRunsFull: operations that a store does not accept wait.
func TestBackendQueueRunsFull(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.BackendDepth = 4 })
	s := newFakeStore(1 << 20)
	f.export(s)
	_, io := f.both()
	s.set(true, nil)
	var cs []*hostCommand
	for i := range 20 {
		cs = append(cs, io.start(ioCommand(capsule.IORead, 2, capsule.ReadWrite{SLBA: capsule.LBA(i), Blocks: 1}, make([]byte, 512))))
	}
	cs[0].wantPending()
	if n := s.inFlight(); n != 4 {
		t.Errorf("%d operations at the store, want 4", n)
	}
	s.set(false, nil)
	for _, c := range cs {
		if r := <-c.response; !r.status.OK() {
			t.Errorf("read: %v", r.status)
		}
	}
}

// A lossCase is a stage at which a command's queue is lost.
type lossCase struct {
	name  string
	cmd   func() *hostCommand
	setUp func(f *fixture, s *fakeStore, io *hostQueue)
	after func(f *fixture, s *fakeStore) // releases what setUp holds
}

func lossCases() []lossCase {
	rw := capsule.ReadWrite{Blocks: 8}
	read := func(nsid capsule.NSID) func() *hostCommand {
		return func() *hostCommand { return ioCommand(capsule.IORead, nsid, rw, make([]byte, 4096)) }
	}
	holdStore := func(_ *fixture, s *fakeStore, _ *hostQueue) { s.set(true, nil) }
	releaseStore := func(_ *fixture, s *fakeStore) { s.set(false, nil) }
	return []lossCase{
		{name: "fetching the data of a write", cmd: func() *hostCommand {
			c := ioCommand(capsule.IOWrite, 2, rw, make([]byte, 4096))
			c.holdFetch = true
			return c
		}},
		{name: "in the backend", cmd: read(2), setUp: holdStore, after: releaseStore},
		{name: "waiting for a lease", cmd: read(1), setUp: func(f *fixture, _ *fakeStore, _ *hostQueue) {
			if !f.store.TryLease(0, 4096, true) {
				f.t.Fatal("no lease")
			}
		}, after: func(f *fixture, _ *fakeStore) { f.store.Release(0, 4096, true) }},
		{name: "response sent, not acknowledged", cmd: read(1), setUp: func(_ *fixture, _ *fakeStore, io *hostQueue) {
			io.call(func() { io.holdAck = true })
		}},
		{name: "between two namespaces of a flush", cmd: func() *hostCommand {
			return ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil)
		}, setUp: holdStore, after: releaseStore},
	}
}

// TestQueueLostAtEveryStage is row 71: whatever a command waits for when its queue ends, it completes once and all
// its resources are released.
func TestQueueLostAtEveryStage(t *testing.T) {
	for _, c := range lossCases() {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			s := newFakeStore(1 << 20)
			f.export(s)
			_, id := f.connectAdmin(0)
			io := f.connectIO(id, 1, 1)
			if c.setUp != nil {
				c.setUp(f, s, io)
			}
			cmd := io.start(c.cmd())
			io.turns(1)
			io.fail(&rdmaError{})
			io.turns(1)
			if c.after != nil {
				c.after(f, s)
			}
			<-io.closed
			if cmd.answers > 1 {
				t.Errorf("answered %d times", cmd.answers)
			}
			if cmd.holdFetch && len(s.ops()) > 0 {
				t.Error("a write without its data reached the store")
			}
			f.wantNothingHeld(io)
			again := f.connectIO(id, 1, 1)
			again.wantOK(ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096)))
		})
	}
}

// wantNothingHeld checks that buffers, lanes and leases of a queue's shard are free.
func (f *fixture) wantNothingHeld(io *hostQueue) {
	f.t.Helper()
	io.turns(1) // the response may arrive before its acknowledgement is processed
	io.call(func() {
		arena := io.q.shard.Arena()
		if arena.Free() != len(arena.Bytes()) {
			f.t.Error("a buffer is missing")
		}
		for _, ns := range f.sub.Namespaces() {
			if n := ns.ns.Volume.Lane(io.q.worker.lanes.Index).Users(); n != 0 {
				f.t.Errorf("%d users of namespace %d are left", n, ns.ID())
			}
		}
	})
	if shared, exclusive := f.leased(); !shared || !exclusive {
		f.t.Error("a lease is left")
	}
}

// TestNoCommandAllocates tests the steady state of the data path, without the network.
func TestNoCommandAllocates(t *testing.T) {
	f := newFixture(t)
	f.export(newNullStore(1 << 20))
	_, io := f.both()
	data := make([]byte, 4096)
	for _, c := range []*hostCommand{
		ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 8}, data),
		ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: 8}, data),
		ioCommand(capsule.IOWrite, 1, capsule.ReadWrite{Blocks: 8}, data),
		ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 8}, data),
		ioCommand(capsule.IOFlush, 1, nil, nil),
		ioCommand(capsule.IOWriteZeroes, 2, capsule.ReadWrite{Blocks: 8}, nil),
		ioCommand(capsule.IORead, 1, capsule.ReadWrite{SLBA: 1 << 60, Blocks: 8}, data), // refused
	} {
		c.sqe.Flags = capsule.FlagsSGL
		l := &quietLink{data: c.memory}
		io.identify(c.sqe.NSID)
		io.call(func() {
			lane := f.sub.table().Get(2).Volume.Lane(1)
			if n := testing.AllocsPerRun(100, func() {
				*l = quietLink{data: l.data}
				io.q.take(l, &c.sqe, 0)
				if l.fetched {
					io.q.requests[0].ready()
				}
				lane.Poll()
				if !l.answered {
					panic("not answered")
				}
				io.q.finished(0)
			}); n != 0 {
				t.Errorf("opcode %#x on namespace %d: %v allocations", c.sqe.Opcode, c.sqe.NSID, n)
			}
		})
	}
}
