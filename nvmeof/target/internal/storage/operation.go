package storage

import (
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// An Operation is one request to a namespace's store, or a lease of its memory.
type Operation struct {
	Owner   Owner
	Party   Party // to which it belongs
	Lane    *Lane // which it uses, or nil
	Gate    *Gate // through which it has entered, or nil
	outside *Gate // at which it waits, or nil
	backend.Request
	leased    bool
	since     uint32               // Lane.asked when it was leased
	place     int                  // in Lane.held, if the lease is shared
	exclusive bool                 // the lease that is held or waited for
	late      bool                 // it waits in turns of the lane, not in submit
	link      list.Link[Operation] // in one of the lane's lists
}

// An Owner owns an operation, and is called as that progresses. These are the only calls upwards from this
// package.
type Owner interface {
	// Admitted is called when the gate opens at which the operation waits. The owner starts the operation again,
	// since the NSID may have another namespace, or none, by then.
	Admitted()
	// Leasable is called when the lease for which the operation waited is held.
	Leasable()
	// Wanted is called repeatedly while others wait for the shared lease that the operation has. Held is how long
	// the lease has been held at least while they waited. The owner may release it.
	Wanted(held time.Duration)
	// Completed is called when the store has completed the operation, with an error if it failed.
	Completed(err error)
}

// Release ends the operation's lease and leaves the lane and the gate, if it has them.
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
