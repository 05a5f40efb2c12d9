package storage

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A stall tracks whether the store of a lane hangs. Commands for such a store must not hold resources that
// commands for other stores need: a host can have as many under way as its queues have entries, which can take
// half of the shard's buffers. So while the store completes nothing, [Shard.Stalled] releases the buffers of its
// operations from the host's share, and all but a few new operations are held at their gate. It belongs to the
// shard.
type stall struct {
	on        *Shard
	watching  shard.Timer // runs while the store has operations, and up to stallTime longer
	completed uint        // total number of operations
	before    uint        // value of completed when watching last began
	stalled   bool
	gates     []*Gate // gates that hold operations because of the stall
}

const (
	// stallTime is how long, or at most twice as long, a store that hangs affects other stores of a host.
	stallTime = time.Second
	// stalledUsers is the minimum number of operations for which a stalled lane has room: one of them may
	// complete, for example after a long flush.
	stalledUsers = 8
)

// watchProgress restarts the supervision of the store.
func (l *Lane) watchProgress() {
	l.before = l.completed
	l.shard.SetTimer(&l.watching, stallTime)
}

// checkProgress checks whether the store has completed anything since watchProgress.
func (l *Lane) checkProgress() {
	if len(l.flight) == len(l.vacant) {
		return // it has no operations
	}
	if l.completed == l.before {
		if !l.stalled {
			l.stalled = true
			l.stalledAt.Store(l.Volume.volumes.age(time.Now().Add(-stallTime)))
		}
		if l.on.Stalled != nil {
			l.on.Stalled(l) // again, for operations that were submitted since
		}
	}
	l.watchProgress()
}

// goOn ends a stall, since the store has completed something.
func (l *Lane) goOn() {
	l.stalled = false
	l.stalledAt.Store(0)
	gates := l.gates
	l.gates = nil
	for _, g := range gates {
		if !g.shut {
			g.admit()
		}
	}
}

// full reports whether the lane is stalled and has no room for another operation beside n more.
func (l *Lane) full(n int) bool { return l.stalled && l.users+n >= stalledUsers }

// HoldStalled holds an operation that has entered but has not begun. It starts again when the store completes
// something.
func (op *Operation) HoldStalled() {
	g := op.Gate
	op.Release()
	g.Hold(op)
}
