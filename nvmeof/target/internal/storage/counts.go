package storage

import (
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
)

// counters counts the operations of hosts through a gate. Other shards read them.
type counters struct {
	reads, writes, readBytes, writeBytes atomic.Uint64
}

// Count counts a completed operation.
func (c *counters) Count(op backend.Op, bytes int64) {
	switch op {
	case backend.OpRead:
		bump(&c.reads, 1)
		bump(&c.readBytes, uint64(bytes))
	case backend.OpWrite:
		bump(&c.writes, 1)
		bump(&c.writeBytes, uint64(bytes))
	}
}

// Resume sets the counts from before the namespace was added. The lanes of its volume may have counted before,
// too.
func (n *Namespace) Resume(before health.Counts) {
	var lanes health.Counts
	n.AddTo(&lanes)
	before.MediaErrors -= min(before.MediaErrors, lanes.MediaErrors)
	before.Busy -= min(before.Busy, lanes.Busy)
	n.before = before
}

// AddTo adds the counts of the namespace's gates, and of the lanes of its volume, which may belong to other
// namespaces too.
func (n *Namespace) AddTo(c *health.Counts) {
	c.Reads += n.before.Reads
	c.Writes += n.before.Writes
	c.ReadBytes += n.before.ReadBytes
	c.WriteBytes += n.before.WriteBytes
	c.MediaErrors += n.before.MediaErrors
	busy := c.Busy
	c.Busy = 0
	n.addNow(c)
	c.Busy = max(busy, c.Busy+n.before.Busy)
}

func (n *Namespace) addNow(c *health.Counts) {
	for i := range n.gates {
		g := n.gates[i].Load()
		if g == nil {
			continue
		}
		c.Reads += g.reads.Load()
		c.Writes += g.writes.Load()
		c.ReadBytes += g.readBytes.Load()
		c.WriteBytes += g.writeBytes.Load()
		g.Lane.Count(c)
	}
}
