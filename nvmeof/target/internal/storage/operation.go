package storage

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
)

// An Operation is one request to a namespace's store, or a lease of its memory.
type Operation struct {
	Owner   Owner
	Lane    *Lane // whose user it is, or nil
	Gate    *Gate // through which it came, or nil
	outside *Gate // where it waits to be let in, or nil
	backend.Request
	leased    bool
	exclusive bool                 // the lease that is held or waited for
	link      list.Link[Operation] // in one of its lane's
}

// An Owner has an operation, and hears how it goes on. Nothing else here calls who uses it.
type Owner interface {
	// Admitted is called when the gate opens at which the operation waits. It has not begun,
	// and the namespace may be another by now, or none.
	Admitted()
	// Leasable is called when the lease that had to wait is held.
	Leasable()
	// Completed is called when the store has carried the operation out, or failed to.
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
		op.leased = false
		l.Viewer.Release(op.Offset, op.Length, op.exclusive)
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
