package disk

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

func TestSyncer(t *testing.T) {
	var y syncer
	want := func(ticket uint64, ended bool, err error) {
		t.Helper()
		if gotEnded, got := y.outcome(ticket); gotEnded != ended || got != err {
			t.Fatalf("outcome of %d: %v, %v, want %v, %v", ticket, gotEnded, got, ended, err)
		}
	}
	begin := func(ticket uint64, want bool) {
		t.Helper()
		if got := y.begin(ticket); got != want {
			t.Fatalf("begin(%d) = %v, want %v", ticket, got, want)
		}
	}
	// Two flushes that arrived together, and one that arrived while their sync was running.
	first, same := y.ticket(), y.ticket()
	begin(first, true)
	begin(same, false)
	later := y.ticket()
	begin(later, false)
	want(first, false, nil)
	y.undo()
	want(same, false, nil)
	begin(same, true)
	y.end(nil)
	want(first, true, nil)
	want(same, true, nil)
	want(later, false, nil)
	begin(same, false) // it has ended in between
	begin(later, true)
	last := y.ticket()
	y.end(unix.EIO)
	want(first, true, nil)
	want(later, true, unix.EIO)
	want(last, true, backend.ErrFailed)
	begin(last, false)
}

// One sync serves every flush that was submitted before it began, on all queues, and no later one.
func TestSyncsAreCoalesced(t *testing.T) {
	s, d := scripted(t, thin)
	a, b := d.queue(t, s), d.queue(t, s)
	flush := func(qt *tester, tag uint64) { qt.submit(tag, backend.OpFlush, 0, 0) }
	flush(a, 1)
	a.wantCalls("sync")
	// While it runs:
	flush(a, 2)
	flush(b, 3)
	flush(b, 4)
	a.wantCalls("sync")
	b.wantCalls()
	b.wantNothing()
	a.succeed()
	a.want(1, nil)
	if b.wakes.Load() == 0 {
		t.Error("the other queue was not notified that a sync has ended")
	}
	a.wantCalls("sync")
	b.wantNothing()
	b.wantCalls()
	a.succeed()
	a.want(2, nil)
	b.poll()
	if len(b.results) != 2 || b.results[3] != nil || b.results[4] != nil {
		t.Errorf("results %v", b.results)
	}
	if n := len(d.started); n != 2 {
		t.Errorf("%d syncs for four flushes, want 2", n)
	}
}

// Row 80 of the catalogue of bad input: a failed sync fails its flushes, latches the store, and is never repeated.
func TestFailedSyncLatches(t *testing.T) {
	s, d := scripted(t, thin)
	a, b := d.queue(t, s), d.queue(t, s)
	a.submit(1, backend.OpFlush, 0, 0)
	b.submit(2, backend.OpFlush, 0, 0) // for the next one
	a.submit(3, backend.OpWrite, 0, a.block)
	a.end(0, 0, unix.EIO)
	a.want(1, unix.EIO)
	b.want(2, backend.ErrFailed)
	a.succeed()
	a.want(3, backend.ErrFailed) // it was in progress: not acknowledged any more
	for _, qt := range []*tester{a, b, d.queue(t, s)} {
		for i, op := range []backend.Op{backend.OpWrite, backend.OpFlush, backend.OpWriteZeroes, backend.OpDeallocate} {
			qt.submit(uint64(10+i), op, 0, qt.block)
			qt.want(uint64(10+i), backend.ErrFailed)
		}
		qt.submit(20, backend.OpRead, 0, qt.block)
		qt.succeed()
		qt.want(20, nil)
	}
	for _, c := range d.started[2:] {
		if c == "sync" {
			t.Error("a sync was tried again")
		}
	}
}

// EINTR of a sync is a failure like any other: what it wrote is unknown.
func TestSyncIsNotRepeated(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EINTR, unix.EAGAIN, unix.ENOSPC} {
		s, d := scripted(t, thin)
		qt := d.queue(t, s)
		qt.submit(1, backend.OpFlush, 0, 0)
		qt.end(0, 0, errno)
		qt.want(1, errno)
		qt.wantCalls()
		if !s.sync.failed() {
			t.Errorf("sync that ended with %v did not latch the store", errno)
		}
	}
}

// A durable write may have failed in its sync, with any error that an earlier write met when it was written back. The
// kernel reports that once, so that the next sync succeeds.
func TestFailedDurableWriteLatches(t *testing.T) {
	for _, errno := range []unix.Errno{
		unix.EIO, unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EPERM, unix.EINTR, unix.EINVAL, unix.ETIMEDOUT, unix.ESTALE,
	} {
		for _, op := range []backend.Op{backend.OpWrite, backend.OpWriteZeroes, backend.OpCompareAndWrite} {
			cfg := thick
			cfg.Info.Compare = true
			s, d := scripted(t, cfg)
			s.noZeroRange.Store(true) // zeroes are written
			qt := d.queue(t, s)
			qt.submit(1, backend.OpWrite, 1<<20, qt.block) // is acknowledged, and lost
			qt.succeed()
			qt.want(1, nil)
			qt.submit(2, op, 0, qt.block, fua, func(r *backend.Request) {
				if op == backend.OpCompareAndWrite {
					r.Buf = backendtest.Buffer(int(3*qt.block), 4096)
				}
			})
			if op == backend.OpCompareAndWrite {
				qt.succeed()
				qt.wantNothing()
			}
			qt.submit(3, backend.OpFlush, 0, 0)
			qt.wantCalls("write durably 0+4096", "sync")
			qt.end(0, 0, errno)
			qt.succeed()
			qt.poll()
			if qt.results[2] == nil || qt.results[3] != backend.ErrFailed {
				t.Errorf("%v that fails with %v: results %v, want an error and %v", op, errno, qt.results, backend.ErrFailed)
			}
			clear(qt.results)
			qt.submit(4, backend.OpFlush, 0, 0)
			qt.want(4, backend.ErrFailed)
			qt.submit(5, backend.OpWrite, 0, qt.block)
			qt.want(5, backend.ErrFailed)
			if err := s.Failed(); !errors.Is(err, errno) {
				t.Errorf("Failed: %v, want %v", err, errno)
			}
		}
	}
}

// If a write may run out of space, that is an error of the write alone: its sync is a separate call.
func TestDurableWriteWithoutSpace(t *testing.T) {
	full := []unix.Errno{unix.ENOSPC, unix.EDQUOT}
	for _, errno := range full {
		cfg := thin
		cfg.Allocates = true
		s, d := scripted(t, cfg)
		qt := d.queue(t, s)
		qt.submit(1, backend.OpWrite, 0, qt.block, fua)
		qt.wantCalls("write 0+4096")
		qt.end(0, 0, errno)
		qt.want(1, backend.ErrNoSpace)
		if err := s.Failed(); err != nil {
			t.Errorf("a write that failed with %v latched the disk: %v", errno, err)
		}
		qt.submit(2, backend.OpWrite, 0, qt.block, fua)
		qt.succeed()
		qt.wantNothing()
		qt.wantCalls("sync")
		qt.end(0, 0, errno)
		qt.want(2, errno)
		if err := s.Failed(); !errors.Is(err, errno) {
			t.Errorf("Failed after a sync that ended with %v: %v", errno, err)
		}
	}
	cfg := thick
	cfg.Device = true
	s, d := scripted(t, cfg)
	qt := d.queue(t, s)
	qt.submit(1, backend.OpWrite, 0, qt.block, fua)
	qt.wantCalls("write durably 0+4096")
	qt.end(0, 0, unix.ENOSPC) // as from a full thin pool
	qt.want(1, backend.ErrNoSpace)
	if err := s.Failed(); err != nil {
		t.Errorf("a device without space: failed: %v", err)
	}
}

// Through the page cache the kernel reports a failed write-back to only one of several syncs. So a durable write is a
// write and one of the disk's syncs. Otherwise its sync could consume the report that is due to a flush that ends
// before it and succeeds, or to another durable write.
func TestCachedDurableWriteIsSynced(t *testing.T) {
	for _, device := range []bool{false, true} {
		cfg := thick
		cfg.Direct, cfg.Device = false, device
		s, d := scripted(t, cfg)
		qt := d.queue(t, s)
		qt.submit(1, backend.OpWrite, 1<<20, qt.block) // is acknowledged, and lost
		qt.succeed()
		qt.want(1, nil)
		qt.submit(2, backend.OpWrite, 0, qt.block, fua)
		qt.submit(3, backend.OpFlush, 0, 0)
		qt.wantCalls("write 0+4096", "sync")
		qt.succeed()
		qt.wantNothing()
		qt.submit(4, backend.OpWrite, 8192, qt.block, fua)
		qt.wantCalls("sync", "write 8192+4096")
		qt.end(1, qt.block, 0)
		qt.wantNothing()
		qt.end(0, 0, unix.EIO)
		qt.poll()
		if !errors.Is(qt.results[3], unix.EIO) || qt.results[2] != backend.ErrFailed || qt.results[4] != backend.ErrFailed {
			t.Errorf("device %v: results %v", device, qt.results)
		}
	}
}

// What was added to a file has no storage yet.
func TestDurableWriteAfterGrowth(t *testing.T) {
	cfg := thick
	size := cfg.Info.Size
	cfg.Measure = func() (int64, error) { return size, nil }
	s, d := scripted(t, cfg)
	qt := d.queue(t, s)
	write := func(want string) {
		t.Helper()
		qt.submit(1, backend.OpWrite, 0, qt.block, fua)
		qt.wantCalls(want)
		qt.succeed()
		if want == "write 0+4096" {
			qt.wantNothing()
			qt.succeed()
		}
		qt.want(1, nil)
	}
	write("write durably 0+4096")
	size += 1 << 20
	if _, err := s.Refresh(); err != nil {
		t.Fatal(err)
	}
	write("write 0+4096")
}

// Two ranges share their blocks after a copy, and XFS frees a range before it allocates it again as zeroes, which may
// fail: a later durable write may run out of space, which is an error of that write alone.
func TestDurableWriteAfterLossOfStorage(t *testing.T) {
	for name, lose := range map[string]func(*tester){
		"copy of another program": func(qt *tester) {
			if _, err := qt.q.(*queue).disk.Refresh(); err != nil {
				qt.t.Fatal(err)
			}
		},
		"copy": func(qt *tester) {
			qt.submit(1, backend.OpCopy, 1<<20, qt.block, func(r *backend.Request) { r.From = 0 })
			for done := false; !done; _, done = qt.results[1] {
				qt.poll()
				runtime.Gosched()
			}
			qt.want(1, nil)
		},
		"zeroes": func(qt *tester) {
			qt.submit(1, backend.OpWriteZeroes, 1<<20, qt.block)
			qt.wantCalls("zero 1048576+4096")
			qt.end(0, 0, unix.ENOSPC)
			qt.want(1, backend.ErrNoSpace)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := thick
			cfg.Info.Copy = true
			cfg.Measure = func() (int64, error) { return cfg.Info.Size, nil }
			cfg.Allocating = func(int) bool { return name == "copy of another program" }
			s, d := scripted(t, cfg)
			qt := d.queue(t, s)
			lose(qt)
			qt.submit(2, backend.OpWrite, 1<<20, qt.block, fua)
			qt.wantCalls("write 1048576+4096")
			qt.end(0, 0, unix.ENOSPC)
			qt.want(2, backend.ErrNoSpace)
			if err := s.Failed(); err != nil {
				t.Errorf("a write without space latched the disk: %v", err)
			}
			qt.submit(3, backend.OpWrite, 1<<20, qt.block, fua)
			qt.succeed()
			qt.wantNothing()
			qt.wantCalls("sync")
			qt.succeed()
			qt.want(3, nil)
		})
	}
}

// Zeroing that needs a sync fails if the sync fails.
func TestDurableZeroesShareTheSync(t *testing.T) {
	s, d := scripted(t, thin)
	qt := d.queue(t, s)
	qt.submit(1, backend.OpFlush, 0, 0)
	qt.submit(2, backend.OpWriteZeroes, 0, qt.block, fua)
	qt.end(1, 0, 0) // the zeroes; the sync that runs does not cover them
	qt.wantNothing()
	qt.succeed()
	qt.want(1, nil)
	qt.wantCalls("sync")
	qt.end(0, 0, unix.EIO)
	qt.want(2, unix.EIO)
}

// A queue that is closed before the kernel has begun its sync leaves the sync to other queues.
func TestAbortedSyncIsTakenOver(t *testing.T) {
	s, d := scripted(t, thin)
	a, b := d.queue(t, s), d.queue(t, s)
	a.aborts = true
	a.submit(1, backend.OpFlush, 0, 0)
	b.submit(2, backend.OpFlush, 0, 0)
	b.wantNothing()
	if err := a.q.Close(); err != nil {
		t.Fatal(err)
	}
	if b.wakes.Load() == 0 {
		t.Error("the other queue was not notified")
	}
	b.wantNothing()
	b.wantCalls("sync")
	b.succeed()
	b.want(2, nil)
	if s.sync.failed() {
		t.Error("a sync that never ran latched the store")
	}
}

// Another sync of the file counts as one of the disk's syncs: none runs beside it, and if it fails the disk has failed.
func TestSyncByOthers(t *testing.T) {
	for _, want := range []error{nil, unix.EIO} {
		s, d := scripted(t, thin)
		qt := d.queue(t, s)
		qt.submit(1, backend.OpFlush, 0, 0)
		begun, ended, result := make(chan bool), make(chan error), make(chan error)
		go func() { // ends with the sync
			result <- s.Sync(func() error {
				close(begun)
				return <-ended
			})
		}()
		select {
		case <-begun:
			t.Fatal("it runs beside a flush")
		case <-time.After(5 * syncPause):
		}
		qt.succeed()
		qt.want(1, nil)
		<-begun
		qt.submit(2, backend.OpWrite, 0, qt.block)
		qt.succeed()
		qt.want(2, nil)
		qt.submit(3, backend.OpFlush, 0, 0)
		qt.wantNothing()
		qt.wantCalls() // beside it
		ended <- want
		if err := <-result; err != want {
			t.Errorf("%v, want %v", err, want)
		}
		if qt.wakes.Load() == 0 {
			t.Error("the queue was not notified")
		}
		if want != nil {
			qt.want(3, backend.ErrFailed)
			if err := s.Sync(func() error { return nil }); err != backend.ErrFailed {
				t.Errorf("after a failure: %v", err)
			}
			continue
		}
		qt.wantNothing()
		qt.wantCalls("sync")
		qt.succeed()
		qt.want(3, nil)
	}
}
