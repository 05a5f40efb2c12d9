package disk

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A syncer ensures that only one fdatasync runs at a time for a disk, whichever queues request it, and that none
// follows a failed one.
//
// Syncs are numbered in the order in which they begin. A request that needs a sync takes a ticket: the number of the
// next sync to begin, which covers everything that has completed by then. In every turn it checks whether that sync has
// ended, and begins it if none is running.
type syncer struct {
	state   atomic.Uint64 // number of the last sync that began, shifted; bit 0: it is running
	failure atomic.Pointer[syncFailure]
}

// A syncFailure latches the disk. It is immutable: clear replaces it.
type syncFailure struct {
	number  uint64 // of the failed sync; 0: the failure is not that of a sync
	last    uint64 // tickets up to this one failed with it; 0: all, the failure is in force
	err     error
	earlier *syncFailure // an earlier failure that was cleared
}

func (y *syncer) ticket() uint64 { return y.state.Load()>>1 + 1 }

// outcome reports whether a ticket's sync has ended, and its result. Tickets after a failed sync fail without being
// tried. A running sync is not ended by another failure: the request that began it must stay in flight as long as the
// kernel has the call.
func (y *syncer) outcome(ticket uint64) (ended bool, err error) {
	state := y.state.Load() // before failure, which is set first
	if state == ticket<<1|1 {
		return false, nil
	}
	for f := y.failure.Load(); f != nil; f = f.earlier {
		switch {
		case ticket < f.number || f.last != 0 && ticket > f.last:
		case ticket == f.number:
			return true, f.err
		default:
			return true, backend.ErrFailed
		}
	}
	last := state >> 1
	if state&1 != 0 {
		last--
	}
	return last >= ticket, nil
}

// begin reports whether the caller must run the ticket's sync and call end. The sync also covers earlier tickets that
// undo left behind.
func (y *syncer) begin(ticket uint64) bool {
	state := y.state.Load()
	idle := state&1 == 0 && state>>1 < ticket
	return idle && !y.failed() && y.state.CompareAndSwap(state, ticket<<1|1)
}

// end records the result of the running sync.
func (y *syncer) end(err error) {
	number := y.state.Load() >> 1
	if err != nil {
		y.latch(number, err)
	}
	y.state.Store(number << 1)
}

// undo records that the running sync was never started, so that another queue may begin it.
func (y *syncer) undo() {
	number := y.state.Load() >> 1
	y.state.Store((number - 1) << 1)
}

// fail latches the disk for a reason other than a sync.
func (y *syncer) fail(err error) { y.latch(0, err) }

// latch sets the failure, unless one is in force.
func (y *syncer) latch(number uint64, err error) {
	for {
		old := y.failure.Load()
		if old.inForce() {
			return
		}
		if y.failure.CompareAndSwap(old, &syncFailure{number: number, err: err, earlier: old}) {
			return
		}
	}
}

// latched returns the failure in force, or nil.
func (y *syncer) latched() *syncFailure {
	if f := y.failure.Load(); f.inForce() {
		return f
	}
	return nil
}

func (f *syncFailure) inForce() bool { return f != nil && f.last == 0 }

func (y *syncer) failed() bool { return y.latched() != nil }

// clear ends the failure in force. It still applies to all existing tickets: the next ticket is that of a later sync.
// clear returns false while a sync is running.
func (y *syncer) clear() bool {
	f := y.latched()
	if f == nil {
		return true
	}
	state := y.state.Load()
	last := state>>1 + 1
	if state&1 != 0 || !y.state.CompareAndSwap(state, last<<1) {
		return false
	}
	return y.failure.CompareAndSwap(f, &syncFailure{number: f.number, last: last, err: f.err, earlier: f.earlier})
}
