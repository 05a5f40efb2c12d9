package target

import (
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
)

// count adds what the namespace's gates counted, and the lanes of its volume, which other
// namespaces may have too. Busy is the busiest shard.
func (n *Namespace) count(c *health.Counts) {
	for i := range n.gates {
		g := n.gates[i].Load()
		if g == nil {
			continue
		}
		l := g.lane
		c.Reads += g.reads.Load()
		c.Writes += g.writes.Load()
		c.ReadBytes += g.readBytes.Load()
		c.WriteBytes += g.writeBytes.Load()
		c.MediaErrors += l.mediaErrors.Load()
		c.Busy = max(c.Busy, time.Duration(l.busy.Load()))
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
