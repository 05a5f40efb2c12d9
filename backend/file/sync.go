package file

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A syncer sees to it that one fdatasync runs at a time for a store, whichever
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

// A syncFailure latches the store.
type syncFailure struct {
	number uint64 // of the sync that failed; 0: it was a write
	err    error
}

func (y *syncer) ticket() uint64 { return y.state.Load()>>1 + 1 }

// outcome tells whether a ticket's sync has ended, and how. Those behind a
// failed one get an error without being tried.
func (y *syncer) outcome(ticket uint64) (ended bool, err error) {
	state := y.state.Load() // before failure, which is set first
	if f := y.failure.Load(); f != nil && ticket >= f.number {
		if ticket == f.number {
			return true, f.err
		}
		return true, backend.ErrFailed
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
	return idle && y.failure.Load() == nil && y.state.CompareAndSwap(state, ticket<<1|1)
}

// end tells how the sync that is running went.
func (y *syncer) end(err error) {
	number := y.state.Load() >> 1
	if err != nil {
		y.failure.CompareAndSwap(nil, &syncFailure{number, err})
	}
	y.state.Store(number << 1)
}

// undo says that the sync that is running never came to run: somebody else may
// begin it.
func (y *syncer) undo() {
	number := y.state.Load() >> 1
	y.state.Store((number - 1) << 1)
}

// fail latches the store for a reason other than a sync.
func (y *syncer) fail(err error) {
	y.failure.CompareAndSwap(nil, &syncFailure{0, err})
}

func (y *syncer) failed() bool { return y.failure.Load() != nil }
