package target

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// shutDown begins a normal shutdown, and returns how long it took; limit: it is not complete.
func (h *hostQueue) shutDown(limit time.Duration) time.Duration {
	h.t.Helper()
	began := time.Now()
	h.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownNormal))
	for time.Since(began) < limit {
		if capsule.CSTS(h.property(capsule.PropertyCSTS)).Shutdown() == capsule.ShutdownComplete {
			return time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return limit
}

// TestOthersShutDownWhileStoreHangs: a store that hangs keeps no host from shutting down that
// has written nothing there: at once where that is known, and as soon as it is otherwise.
func TestOthersShutDownWhileStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		hung, other := newFakeStore(1<<20), newFakeStore(1<<20)
		f.export(hung)
		f.export(other)
		writer, writerID := f.connectAdmin(0)
		writing := f.connectIO(writerID, 1, 1)
		writing.wantOK(writeOf(2))
		reset, resetID := f.connectAdmin(0)
		f.connectIO(resetID, 1, 1).wantOK(writeOf(2))
		hung.set(true, nil)
		for i, most := range []time.Duration{4 * time.Second, 50 * time.Millisecond, 50 * time.Millisecond} {
			h, id := f.connectAdmin(0)
			io := f.connectIO(id, 1, 1)
			io.wantOK(writeOf(3))
			other.ops()
			if took := h.shutDown(time.Minute); took > most {
				t.Errorf("host %d: it took %v", i, took)
			}
			if ops := other.ops(); len(ops) != 1 {
				t.Errorf("host %d: what it has written is flushed by %+v", i, ops)
			}
			h.lose()
			<-h.closed
		}
		// Who has written there is told that it is durable when it is.
		reset.setCC(0)
		reset.setCC(linuxCC.WithEnable(true)) // its queues end, what was written is as before
		for _, h := range []*hostQueue{writer, reset} {
			if took := h.shutDown(time.Minute); took < time.Minute {
				t.Errorf("complete after %v, although the store hangs", took)
			}
		}
		hung.set(false, nil)
		for _, h := range []*hostQueue{writer, reset} {
			if took := h.shutDown(time.Minute); took > time.Second {
				t.Errorf("complete %v after the store answers", took)
			}
		}
		f.close2(t)
	})
}

// TestAbruptShutdownWaits: an abrupt shutdown is complete when no write can have an effect any more, and flushes nothing.
func TestAbruptShutdownWaits(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	h, id := f.connectAdmin(0)
	io := f.connectIO(id, 1, 1)
	s.set(true, nil)
	io.start(writeOf(2)).wantPending()
	for s.inFlight() == 0 { // another shard's turn
		io.turns(1)
	}
	h.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownAbrupt))
	status := func() capsule.ShutdownStatus {
		t.Helper()
		return capsule.CSTS(h.property(capsule.PropertyCSTS)).Shutdown()
	}
	h.turns(5)
	if got := status(); got != capsule.ShutdownOccurring {
		t.Errorf("SHST %d while a write is in flight", got)
	}
	s.set(false, nil)
	<-io.closed
	f.within(h, "the shutdown is complete", func() bool { return status() == capsule.ShutdownComplete })
	if ops := s.ops(); len(ops) != 1 {
		t.Errorf("operations %+v, want the write alone", ops)
	}
}

// TestShutdownAfterReset: the flush of a shutdown that a reset has ended is not that of the next one: what was written
// in between is flushed before that is complete.
func TestShutdownAfterReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := newFakeStore(1 << 20)
		f.export(s)
		h, id := f.connectAdmin(0)
		f.connectIO(id, 1, 1).wantOK(writeOf(2))
		s.set(true, nil)
		h.shutDown(time.Second)
		h.setCC(0)
		h.setCC(linuxCC.WithEnable(true))
		f.connectIO(id, 1, 1)
		h.shutDown(time.Second)
		s.ops()
		s.step()
		if took := h.shutDown(time.Second); took < time.Second {
			t.Errorf("complete after the flush of the shutdown before")
		}
		if ops := s.ops(); len(ops) != 1 || ops[0].Op != backend.OpFlush {
			t.Errorf("after it has ended the store has got %+v", ops)
		}
		s.set(false, nil)
		if took := h.shutDown(time.Minute); took > time.Second {
			t.Errorf("complete %v after the store answers", took)
		}
		f.close2(t)
	})
}

// TestFlushesEndWithTheirHosts: hosts that come, have everything flushed, and go, while a store
// hangs, leave nothing that grows, and have no controller any more.
func TestFlushesEndWithTheirHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		hung := newFakeStore(1 << 20)
		ns := f.export(hung)
		hung.set(true, nil)
		users := func(h *hostQueue) (n int) {
			h.call(func() { n = ns.ns.Volume.Lane(h.q.worker.lanes.Index).Users() })
			return n
		}
		stay, _ := f.connectAdmin(0)
		most := 0
		for i := range 200 {
			h, _ := f.connectAdmin(0)
			for range 4 {
				h.start(setCache(0))
				h.start(protect(2, 1)) // which waits for a flush as well
				h.start(protect(2, 0))
			}
			if h.turns(2); i%2 == 0 {
				h.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownNormal))
			}
			h.turns(2)
			h.lose()
			h.turns(2)
			if i == 99 {
				most = users(stay)
			}
		}
		time.Sleep(time.Second)
		if n := users(stay); n > most {
			t.Errorf("after twice as many hosts %d operations wait for the store, instead of %d", n, most)
		}
		if p := ns.ns.Protection(); p != 0 {
			t.Errorf("write protection is %d, although nobody was told so", p)
		}
		if n := len(f.target.Controllers()); n != 1 {
			t.Errorf("%d controllers are left", n)
		}
		hung.set(false, nil)
		f.within(stay, "the store ends what it has", func() bool { return users(stay) == 0 })
		f.close2(t)
	})
}
