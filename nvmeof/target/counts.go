package target

import (
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// counts are the sums over a namespace's gates, and over the lanes of its volume,
// which other namespaces may have too.
type counts struct {
	reads, writes         uint64
	readBytes, writeBytes uint64
	mediaErrors           uint64
	busy                  time.Duration // of the busiest shard
}

func (c *counts) add(ns *Namespace) {
	for i := range ns.gates {
		g := ns.gates[i].Load()
		if g == nil {
			continue
		}
		l := g.lane
		c.reads += g.reads.Load()
		c.writes += g.writes.Load()
		c.readBytes += g.readBytes.Load()
		c.writeBytes += g.writeBytes.Load()
		c.mediaErrors += l.mediaErrors.Load()
		c.busy = max(c.busy, time.Duration(l.busy.Load()))
	}
}

// bump adds to a counter that only the caller's shard writes: a load and a
// store, so that readers elsewhere see whole values.
func bump(c *atomic.Uint64, n uint64) { c.Store(c.Load() + n) }

// count notes a finished operation.
func (g *gate) count(op backend.Op, bytes int64) {
	switch op {
	case backend.OpRead:
		bump(&g.reads, 1)
		bump(&g.readBytes, uint64(bytes))
	case backend.OpWrite:
		bump(&g.writes, 1)
		bump(&g.writeBytes, uint64(bytes))
	}
}
