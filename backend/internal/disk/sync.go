package disk

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A syncer sees to it that one fdatasync runs at a time for a disk, whichever
// queues ask, and that none follows one that failed.
//
// Syncs are numbered in the order in which they begin. Who needs one takes a
// ticket: the number of the next sync to begin from then on, which therefore
// covers everything that has completed. Then it looks at every turn whether
// that sync has ended, or begins it if none is running.
type syncer struct {
	state   atomic.Uint64 // number of the last sync that began; lowest bit: it is running
	failure atomic.Pointer[syncFailure]
}

// A syncFailure latches the disk. It does not change: clear replaces it.
type syncFailure struct {
	number  uint64 // of the sync that failed; 0: it was something else
	last    uint64 // tickets up to this failed with it; 0: all, it is in force
	err     error
	earlier *syncFailure // that was cleared
}

func (y *syncer) ticket() uint64 { return y.state.Load()>>1 + 1 }

// outcome says whether a ticket's sync has ended, and how. Those behind a
// failed one get an error without being tried. One that is running ends first,
// whatever has failed meanwhile: who began it has a request for as long as the
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

// begin reports whether the caller is to run the ticket's sync and call end. It
// covers earlier tickets too, as there are after undo.
func (y *syncer) begin(ticket uint64) bool {
	state := y.state.Load()
	idle := state&1 == 0 && state>>1 < ticket
	return idle && !y.failed() && y.state.CompareAndSwap(state, ticket<<1|1)
}

// end records how the sync that is running went.
func (y *syncer) end(err error) {
	number := y.state.Load() >> 1
	if err != nil {
		y.latch(number, err)
	}
	y.state.Store(number << 1)
}

// undo says that the sync that is running never came to run: somebody else may
// begin it.
func (y *syncer) undo() {
	number := y.state.Load() >> 1
	y.state.Store((number - 1) << 1)
}

// fail latches the disk for a reason other than a sync.
func (y *syncer) fail(err error) { y.latch(0, err) }

// latch keeps the first failure.
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

// latched is the failure in force, or nil.
func (y *syncer) latched() *syncFailure {
	if f := y.failure.Load(); f.inForce() {
		return f
	}
	return nil
}

func (f *syncFailure) inForce() bool { return f != nil && f.last == 0 }

func (y *syncer) failed() bool { return y.latched() != nil }

// clear ends the failure in force. All tickets that exist keep it: the next one
// is of a later sync. It reports false while a sync runs.
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
