package child

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

const crowdBlock = 4096

// A member is one connection of a crowd, with requests of its own in flight.
type member struct {
	queue  backend.Queue
	memory []byte
	ops    uint64
}

// A crowd drives many connections from one goroutine, which serves them in turn.
type crowd struct {
	members []*member
	depth   int
	blocks  int64
	batch   []backend.Request
	results []backend.Result
	flying  int
	err     error
}

// IdleHosts connects n more hosts, each with an identity of its own, that do nothing.
func (h *Host) IdleHosts(n int, _ *None) error {
	for range n {
		identity, err := nvmeof.NewHostIdentity()
		if err != nil {
			return err
		}
		_, err = h.host.Connect(context.Background(), host.Options{
			Traddr: h.spec.Target, NQN: nqn, HostNQN: identity.NQN, HostID: identity.ID, QueueSize: h.spec.QueueSize,
			BounceMemory: 1 << 20,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CrowdSpec is a load of 4 KiB random reads on many connections.
type CrowdSpec struct {
	Connections int
	Depth       int
	Runtime     time.Duration
	Ramp        time.Duration
}

// JoinCrowd makes the connections, on as many controllers as they need.
func (h *Host) JoinCrowd(spec CrowdSpec, _ *None) error {
	h.crowd = &crowd{
		depth: spec.Depth, batch: make([]backend.Request, 0, spec.Depth), results: make([]backend.Result, spec.Depth),
	}
	for left := spec.Connections; left > 0; left -= nvmeof.MaxIOQueues {
		if err := h.join(min(left, nvmeof.MaxIOQueues)); err != nil {
			return fmt.Errorf("after %d connections: %w", len(h.crowd.members), err)
		}
	}
	return nil
}

func (h *Host) join(queues int) error {
	ctx := context.Background()
	c, err := h.host.Connect(ctx, host.Options{
		Traddr: h.spec.Target, NQN: nqn, NrIOQueues: queues, QueueSize: h.crowd.depth + 1, BounceMemory: 1 << 20,
	})
	if err != nil {
		return err
	}
	if c.IOQueues() != queues {
		return fmt.Errorf("the target grants %d I/O queues of %d", c.IOQueues(), queues)
	}
	ns, err := c.Namespace(ctx, capsule.NSID(Memory))
	if err != nil {
		return err
	}
	each := h.crowd.depth * crowdBlock
	buffers, err := c.NewBuffers(queues * each)
	if err != nil {
		return err
	}
	h.crowd.blocks = ns.Size() / crowdBlock
	for i := range queues {
		q, err := ns.OpenQueue(h.crowd.depth, nil)
		if err != nil {
			return err
		}
		h.crowd.members = append(h.crowd.members, &member{queue: q, memory: buffers.Bytes()[i*each:][:each]})
	}
	return nil
}

// Crowd loads all connections.
func (h *Host) Crowd(spec CrowdSpec, s *Sample) error {
	c := h.crowd
	c.load(spec.Ramp)
	for _, m := range c.members {
		m.ops = 0
	}
	start := time.Now()
	c.load(spec.Runtime)
	took := time.Since(start)
	c.drain()
	if c.err != nil {
		return c.err
	}
	var each []uint64
	for _, m := range c.members {
		each = append(each, m.ops)
		s.Ops += m.ops
	}
	slices.Sort(each)
	s.IOPS = float64(s.Ops) / took.Seconds()
	s.Slowest = float64(each[0]) / float64(max(1, each[len(each)/2]))
	return nil
}

// load keeps requests in flight on every connection.
func (c *crowd) load(d time.Duration) {
	for start := time.Now(); c.err == nil && time.Since(start) < d; {
		for _, m := range c.members {
			if m.queue.Idle() {
				c.begin(m)
			}
			c.turn(m, true)
		}
	}
}

func (c *crowd) begin(m *member) {
	for tag := range c.depth {
		c.prepare(m, uint64(tag))
	}
	c.submit(m)
}

// turn takes results of one connection. If again is true it submits a new request for each.
func (c *crowd) turn(m *member, again bool) {
	n := m.queue.Poll(c.results)
	for _, r := range c.results[:n] {
		c.flying--
		m.ops++
		if r.Err != nil && c.err == nil {
			c.err = r.Err
		}
		if again {
			c.prepare(m, r.Tag)
		}
	}
	if len(c.batch) > 0 {
		c.submit(m)
	}
}

func (c *crowd) prepare(m *member, tag uint64) {
	c.batch = append(c.batch, backend.Request{
		Tag: tag, Op: backend.OpRead, Offset: rand.Int64N(c.blocks) * crowdBlock, Length: crowdBlock,
		Buf: m.memory[tag*crowdBlock:][:crowdBlock:crowdBlock],
	})
}

func (c *crowd) submit(m *member) {
	n := m.queue.Submit(c.batch)
	if c.flying += n; n < len(c.batch) && c.err == nil {
		c.err = fmt.Errorf("a queue took %d of %d requests", n, len(c.batch))
	}
	c.batch = c.batch[:0]
}

func (c *crowd) drain() {
	for c.flying > 0 && c.err == nil {
		for _, m := range c.members {
			c.turn(m, false)
		}
	}
}
