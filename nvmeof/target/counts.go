package target

import (
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// counts are the sums over a namespace's lanes.
type counts struct {
	reads, writes         uint64
	readBytes, writeBytes uint64
	mediaErrors           uint64
	busy                  time.Duration // of the busiest shard
}

func (c *counts) add(ns *Namespace) {
	for i := range ns.lanes {
		l := &ns.lanes[i]
		c.reads += l.reads.Load()
		c.writes += l.writes.Load()
		c.readBytes += l.readBytes.Load()
		c.writeBytes += l.writeBytes.Load()
		c.mediaErrors += l.mediaErrors.Load()
		c.busy = max(c.busy, time.Duration(l.busy.Load()))
	}
}

// bump adds to a counter that only the caller's shard writes: a load and a
// store, so that readers elsewhere see whole values.
func bump(c *atomic.Uint64, n uint64) { c.Store(c.Load() + n) }

// count notes a finished operation.
func (l *lane) count(op backend.Op, bytes int64) {
	switch op {
	case backend.OpRead:
		bump(&l.reads, 1)
		bump(&l.readBytes, uint64(bytes))
	case backend.OpWrite:
		bump(&l.writes, 1)
		bump(&l.writeBytes, uint64(bytes))
	}
}
