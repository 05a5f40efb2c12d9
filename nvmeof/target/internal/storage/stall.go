package storage

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A stall is what a lane knows of a store that hangs. Commands for that must not hold what
// those for other stores need: a host has as many of them under way as its queues have
// entries, and half of the shard's buffers. So while the store completes nothing its
// operations are excused, by [Shard.Stalled], and all but a few new ones are held at their
// gate. It belongs to the shard.
type stall struct {
	on        *Shard
	watching  shard.Timer // runs while the store has operations, and no longer than stallTime after them
	completed uint        // operations, ever
	before    uint        // completed when watching began anew
	stalled   bool
	gates     []*Gate // that hold operations for that
}

const (
	// stallTime is how long a store that hangs keeps a host from others, at most twice.
	stallTime = time.Second
	// stalledUsers is how many operations a lane has that is stalled, at least: one of
	// them may complete, as after a long flush.
	stalledUsers = 8
)

// watchProgress watches the store from now on.
func (l *Lane) watchProgress() {
	l.before = l.completed
	l.shard.SetTimer(&l.watching, stallTime)
}

// checkProgress finds out whether the store has completed anything meanwhile.
func (l *Lane) checkProgress() {
	if len(l.flight) == len(l.vacant) {
		return // it has nothing
	}
	if l.completed == l.before {
		if !l.stalled {
			l.stalled = true
			l.stalledAt.Store(l.Volume.volumes.age(time.Now().Add(-stallTime)))
		}
		if l.on.Stalled != nil {
			l.on.Stalled(l) // again for what came since
		}
	}
	l.watchProgress()
}

// goOn ends a stall: the store has completed something.
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

// full reports whether a lane that is stalled takes no operations beside those that it has
// and n more.
func (l *Lane) full(n int) bool { return l.stalled && l.users+n >= stalledUsers }

// HoldStalled has an operation that has entered, and has not begun, start again when the
// store completes something.
func (op *Operation) HoldStalled() {
	g := op.Gate
	op.Release()
	g.Hold(op)
}
