package target

import (
	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// count adds what the namespace's gates counted, and the lanes of its volume, which other
// namespaces may have too.
func (n *Namespace) count(c *health.Counts) {
	for i := range n.gates {
		g := n.gates[i].Load()
		if g == nil {
			continue
		}
		c.Reads += g.reads.Load()
		c.Writes += g.writes.Load()
		c.ReadBytes += g.readBytes.Load()
		c.WriteBytes += g.writeBytes.Load()
		g.lane.Count(c)
	}
}

// count notes a finished operation.
func (g *gate) count(op backend.Op, bytes int64) {
	switch op {
	case backend.OpRead:
		volume.Bump(&g.reads, 1)
		volume.Bump(&g.readBytes, uint64(bytes))
	case backend.OpWrite:
		volume.Bump(&g.writes, 1)
		volume.Bump(&g.writeBytes, uint64(bytes))
	}
}
