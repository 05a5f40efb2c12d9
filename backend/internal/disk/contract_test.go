package disk

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// The durability contract, row by row, and where each is tested:
//
//	write complete, not yet durable        TestWriteIsNotSynced, Info.Volatile
//	force unit access                      TestForceUnitAccess; file.TestDurableAfterKill
//	flush after completed writes           TestCrashConsistency, TestSyncsAreCoalesced
//	flush never blocks a shard             TestFlushDoesNotBlock
//	write zeroes, deallocate               TestZeroing, TestUnsupportedIsRemembered
//	atomicity of a block                   file.TestBlockFollowsDrive; backendtest AtomicBlocks
//	a failed sync latches, is not repeated TestFailedSyncLatches, TestSyncIsNotRepeated
//	a sync within a write fails            TestFailedDurableWriteLatches, TestDurableWriteWithoutSpace;
//	                                       file.TestDurableWriteTakesReportAlong
//	how a latch is cleared                 TestClear, TestClearKeepsOldFlushesFailed
//	a failure beside a sync                TestFailureWhileSyncing
//	stale writes                           TestAbandonedWriteLandsFirst, TestAbandonedWriteNeverLands
//	EIO, ENOSPC, EROFS, EDQUOT             TestErrors, file.TestNoSpace
//	short transfers, EINTR                 TestShortAndInterrupted
//	cut off while open                     TestBeyondTheEnd, file.TestCutOff
//	the device is gone                     TestGone
//	crash at every point                   TestCrashConsistency, TestKilledAtEveryPoint

func TestWriteIsNotSynced(t *testing.T) {
	d, k := scripted(t, thick)
	qt := k.queue(t, d)
	qt.submit(1, backend.OpWrite, 0, qt.block)
	qt.succeed()
	qt.want(1, nil)
	qt.wantCalls()
	if !slices.Equal(k.started, []string{"write 0+4096"}) {
		t.Errorf("calls %q, want the write alone", k.started)
	}
}

func TestForceUnitAccess(t *testing.T) {
	d, k := scripted(t, thick)
	qt := k.queue(t, d)
	qt.submit(1, backend.OpWrite, 0, 2*qt.block, fua)
	qt.end(0, qt.block, 0) // short: the rest is durable too
	qt.wantNothing()
	qt.succeed()
	qt.want(1, nil)
	if !slices.Equal(k.started, []string{"write durably 0+8192", "write durably 4096+4096"}) {
		t.Errorf("calls %q", k.started)
	}
}

// While the drive is slow to flush, reads, writes and durable writes continue, on the same queue and on others.
func TestFlushDoesNotBlock(t *testing.T) {
	d, k := scripted(t, sparse)
	a, b := k.queue(t, d), k.queue(t, d)
	a.submit(1, backend.OpFlush, 0, 0)
	for i, qt := range []*tester{a, b} {
		at := int64(i) * 8 * qt.block
		for tag, op := range []backend.Op{backend.OpRead, backend.OpWrite, backend.OpWriteZeroes, backend.OpDeallocate} {
			qt.submit(uint64(10+tag), op, at, qt.block)
			qt.end(len(qt.calls)-1, qt.block, 0)
			qt.want(uint64(10+tag), nil)
		}
		qt.submit(20, backend.OpWrite, at, qt.block, fua)
		qt.end(len(qt.calls)-1, qt.block, 0)
		qt.want(20, nil)
	}
	a.wantCalls("sync")
	a.succeed()
	a.want(1, nil)
}

// A write that its owner gave up on but that the kernel has begun: Close of its queue waits for it, and newer requests
// wait too.
func TestAbandonedWriteLandsFirst(t *testing.T) {
	d, k := scripted(t, thick)
	a, b := k.queue(t, d), k.queue(t, d)
	a.submit(1, backend.OpWrite, 0, a.block)
	b.submit(2, backend.OpWrite, 0, a.block)
	b.wantNothing()
	b.wantCalls()
	landed := false
	for _, c := range a.calls {
		landed = landed || words(c) == "write 0+4096"
	}
	if err := a.q.Close(); err != nil || !landed || len(a.calls) > 0 {
		t.Fatalf("Close: %v, with %d calls in the kernel", err, len(a.calls))
	}
	b.poll()
	b.wantCalls("write 0+4096")
	b.succeed()
	b.want(2, nil)
}

// A write that the kernel has not begun never reaches the file.
func TestAbandonedWriteNeverLands(t *testing.T) {
	d, k := scripted(t, thick)
	a, b := k.queue(t, d), k.queue(t, d)
	b.submit(1, backend.OpRead, 0, a.block)
	a.submit(2, backend.OpWrite, 0, a.block) // waits for the read
	if err := a.q.Close(); err != nil {
		t.Fatal(err)
	}
	b.succeed()
	b.want(1, nil)
	b.submit(3, backend.OpWrite, 0, a.block)
	for range 1 << 14 { // the mark of the waiting write expires
		b.poll()
	}
	b.succeed()
	b.want(3, nil)
	if want := []string{"read 0+4096", "write 0+4096"}; !slices.Equal(k.started, want) {
		t.Errorf("calls %q, want %q", k.started, want)
	}
}

// latch makes a flush of the disk fail.
func latch(t *testing.T, qt *tester, d *Disk) {
	t.Helper()
	qt.submit(1, backend.OpFlush, 0, 0)
	qt.end(0, 0, unix.EIO)
	qt.want(1, unix.EIO)
	if err := d.Failed(); !errors.Is(err, unix.EIO) {
		t.Fatalf("Failed: %v", err)
	}
}

func TestClear(t *testing.T) {
	d, k := scripted(t, thick)
	if err := errors.Join(d.Failed(), d.Clear()); err != nil {
		t.Fatal(err)
	}
	qt := k.queue(t, d)
	for range 3 {
		latch(t, qt, d)
		qt.submit(2, backend.OpWrite, 0, qt.block)
		qt.want(2, backend.ErrFailed)
		if err := errors.Join(d.Clear(), d.Failed()); err != nil {
			t.Fatal(err)
		}
		qt.submit(3, backend.OpWrite, 0, qt.block)
		qt.succeed()
		qt.want(3, nil)
		qt.submit(4, backend.OpFlush, 0, 0)
		qt.succeed()
		qt.want(4, nil)
	}
}

// What was in progress when the disk failed is not acknowledged even after the failure was cleared: neither a flush,
// nor a write, part of which the failed sync may have covered.
func TestClearKeepsOldFlushesFailed(t *testing.T) {
	d, k := scripted(t, thick)
	a, b := k.queue(t, d), k.queue(t, d)
	a.submit(1, backend.OpFlush, 0, 0)
	b.submit(2, backend.OpFlush, 0, 0) // for the next one
	b.submit(3, backend.OpWrite, 0, b.block)
	a.end(0, 0, unix.EIO)
	a.want(1, unix.EIO)
	if err := d.Clear(); err != nil {
		t.Fatal(err)
	}
	b.want(2, backend.ErrFailed)
	b.succeed()
	b.want(3, backend.ErrFailed)
	b.submit(4, backend.OpFlush, 0, 0)
	b.wantCalls("sync")
	b.succeed()
	b.want(4, nil)
}

// A flush whose sync is in the kernel when the disk fails does not succeed, since it does not cover what the durable
// write lost. It ends with its sync, not before: the queue is not idle while the kernel has one of its calls, and an
// idle queue can be closed on any thread.
func TestFailureWhileSyncing(t *testing.T) {
	d, k := scripted(t, thick)
	qt, other := k.queue(t, d), k.queue(t, d)
	qt.submit(1, backend.OpFlush, 0, 0)
	qt.submit(2, backend.OpWrite, 0, qt.block, fua)
	other.submit(3, backend.OpFlush, 0, 0) // for a sync that never begins
	qt.end(1, 0, unix.EIO)
	qt.want(2, unix.EIO)
	other.want(3, backend.ErrFailed)
	if qt.q.Idle() || !other.q.Idle() {
		t.Errorf("idle: the queue whose sync runs %v, the other %v", qt.q.Idle(), other.q.Idle())
	}
	if err := d.Clear(); err == nil {
		t.Error("cleared while a sync is under way")
	}
	qt.succeed()
	qt.want(1, backend.ErrFailed)
	if !qt.q.Idle() {
		t.Error("queue is not idle after its last result")
	}
	if err := d.Clear(); err != nil {
		t.Error(err)
	}
}

// The same with a real sync that takes a while, and with a ring whose completions are made on one thread only.
func TestCloseAfterFailureWhileSyncing(t *testing.T) {
	for _, engine := range []Engine{EngineAuto, EngineThreads} {
		d := openDisk(t, Config{Info: backend.Info{Size: 64 << 20}, Options: Options{Engine: engine, LockedThreads: true}})
		if _, err := unix.Pwrite(d.cfg.FD, make([]byte, 64<<20), 0); err != nil {
			t.Fatal(err)
		}
		q, err := d.NewQueue(4, nil)
		if err != nil {
			t.Fatal(err)
		}
		idle := make(chan error)
		go func() { // its thread ends with it
			runtime.LockOSThread()
			q.Submit([]backend.Request{{Op: backend.OpFlush}})
			d.sync.fail(unix.EIO)
			var got [1]backend.Result
			for !q.Idle() {
				q.Poll(got[:])
			}
			idle <- got[0].Err
			<-idle
		}()
		if err := <-idle; err != backend.ErrFailed {
			t.Errorf("%v: a flush during which the disk failed: %v", engine, err)
		}
		closed := make(chan error, 1)
		go func() { closed <- q.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Errorf("%v: %v", engine, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%v: Close of an idle queue does not end", engine)
		}
		idle <- nil
		if err := errors.Join(d.Clear(), d.Close()); err != nil {
			t.Errorf("%v: %v", engine, err)
		}
	}
}

// The device was removed: every request fails, and the failure cannot be cleared.
func TestGone(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENODEV, unix.ENXIO, unix.EIO} {
		cfg := thick
		gone := false
		cfg.Device = true
		cfg.Measure = func() (int64, error) {
			if gone {
				return 0, ErrGone
			}
			return thick.Info.Size, nil
		}
		d, k := scripted(t, cfg)
		qt := k.queue(t, d)
		qt.submit(1, backend.OpWrite, 0, qt.block)
		qt.end(0, 0, unix.EIO)
		qt.want(1, unix.EIO)
		if err := d.Failed(); err != nil {
			t.Errorf("one error of a device that is there: %v", err)
		}
		gone = true
		qt.submit(2, backend.OpRead, 0, qt.block)
		qt.end(0, 0, errno)
		qt.want(2, ErrGone)
		qt.submit(3, backend.OpWrite, 0, qt.block)
		qt.want(3, backend.ErrFailed)
		if err := d.Failed(); !errors.Is(err, ErrGone) {
			t.Errorf("Failed after %v: %v", errno, err)
		}
		if err := d.Clear(); !errors.Is(err, ErrGone) {
			t.Errorf("Clear after %v: %v", errno, err)
		}
	}
}

// Reading the size detects it as well.
func TestRefreshFindsGone(t *testing.T) {
	cfg := thick
	cfg.Measure = func() (int64, error) { return 0, fmt.Errorf("device: %w", ErrGone) }
	d, _ := scripted(t, cfg)
	if changed, err := d.Refresh(); changed || !errors.Is(err, ErrGone) || !errors.Is(d.Failed(), ErrGone) {
		t.Errorf("Refresh: %v, %v; Failed: %v", changed, err, d.Failed())
	}
	if d.Info().Size != thick.Info.Size {
		t.Errorf("size %d", d.Info().Size)
	}
}

func TestRefresh(t *testing.T) {
	cfg := thick
	size := cfg.Info.Size
	cfg.Measure = func() (int64, error) { return size, nil }
	d, k := scripted(t, cfg)
	qt := k.queue(t, d)
	for _, tt := range []struct {
		size, want int64
		changed    bool
	}{
		{size, size, false},
		{size + 4095, size, false},
		{size + 4096, size + 4096, true},
		{4096, 4096, true},
		{4095, 0, true},
		{0, 0, false},
		{size, size, true},
	} {
		size = tt.size
		if changed, err := d.Refresh(); err != nil || changed != tt.changed || d.Info().Size != tt.want {
			t.Errorf("%d bytes: changed %v, %v, size %d, want %v, %d", tt.size, changed, err, d.Info().Size, tt.changed, tt.want)
		}
		qt.submit(1, backend.OpWrite, tt.want, qt.block)
		qt.want(1, backend.ErrOutOfRange)
		if tt.want > 0 {
			qt.submit(2, backend.OpWrite, tt.want-qt.block, qt.block)
			qt.succeed()
			qt.want(2, nil)
		}
	}
}

// Before a Refresh, a device reports its new end by its own errors.
func TestBeyondTheEnd(t *testing.T) {
	cfg := thick
	size := cfg.Info.Size
	cfg.Measure = func() (int64, error) { return size, nil }
	d, k := scripted(t, cfg)
	qt := k.queue(t, d)
	size = 4096
	qt.submit(1, backend.OpRead, 4096, 2*qt.block)
	qt.end(0, 0, 0)
	qt.want(1, backend.ErrOutOfRange)
	qt.submit(2, backend.OpWrite, 4096, qt.block)
	qt.end(0, 0, unix.ENOSPC)
	qt.want(2, backend.ErrOutOfRange)
	qt.submit(3, backend.OpWrite, 0, qt.block)
	qt.end(0, 0, unix.ENOSPC)
	qt.want(3, backend.ErrNoSpace)
}
