package storage

import (
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// An Operation is one request to a namespace's store, or a lease of its memory.
type Operation struct {
	Owner   Owner
	Party   Party // whose it is
	Lane    *Lane // of which it is a user, or nil
	Gate    *Gate // through which it has entered, or nil
	outside *Gate // at which it waits, or nil
	backend.Request
	leased    bool
	since     uint32               // Lane.asked when it was leased
	place     int                  // in Lane.held, if the lease is shared
	exclusive bool                 // the lease that is held or waited for
	late      bool                 // it is in a turn of the lane, not in submit
	link      list.Link[Operation] // in one of its lane's
}

// An Owner has an operation, and is called as that goes on. Nothing else here calls
// upwards.
type Owner interface {
	// Admitted is called when the gate opens at which the operation waits. The operation
	// starts again, since another namespace, or none, may have the NSID by then.
	Admitted()
	// Leasable is called when the lease that had to wait is held.
	Leasable()
	// Wanted is called, again and again, while others wait for the shared lease that the
	// operation has, when it has had it for at least the given time of their wait. The
	// owner may release it.
	Wanted(held time.Duration)
	// Completed is called when the store has completed the operation, or failed to.
	Completed(err error)
}

// Release ends a lease and leaves the lane and the gate, where the operation has them.
func (op *Operation) Release() {
	if op.Lane != nil {
		op.leaveLane(op.Lane)
	}
	if g := op.Gate; g != nil {
		op.Gate = nil
		g.leave()
	}
}

func (op *Operation) leaveLane(l *Lane) {
	if op.leased {
		l.release(op)
	}
	op.Lane, op.Buf = nil, nil
	if l.users--; l.users > 0 {
		return
	}
	bump(&l.busy, uint64(l.shard.Now()-l.since))
	if l.closing != nil {
		closing := l.closing
		l.closing = nil
		closing()
	}
}
