package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Controller is an association with a controller of a subsystem. Its methods
// may be called from any goroutine.
type Controller struct {
	host    *Host
	options Options
	domain  rdmatransport.Domain
	windows bool
	pools   []*pool // by shard, nil where nothing needs one
	admin   *link
	lanes   []*lane
	keep    keepAlive
	events  events
	aborts  aborter
	ops     sync.Pool     // of *op, idle
	turn    atomic.Uint32 // of the lanes

	proving      sync.Mutex    // held while Authenticate runs
	transactions atomic.Uint32 // exchanges begun; the low 16 bits are the next T_ID

	// Learnt from the controller, constant after Connect.
	cntlid   capsule.ControllerID
	cap      capsule.CAP
	version  capsule.Version
	identify capsule.IdentifyController
	limits   limits

	memory  sync.Mutex // guards freed and changes of buffers
	freed   bool
	buffers atomic.Pointer[[]*Buffers]

	life    sync.Mutex // guards what follows; held for moments only
	open    []*link    // connected queues, the admin queue first
	err     error      // why the controller is lost
	ending  bool       // Disconnect was called
	done    chan struct{}
	gone    chan struct{} // closed when Disconnect has ended
	goneErr error         // before gone is closed, as is shut
	shut    bool          // the controller has said that it is shut down
}

// Connect makes an association with a controller of the subsystem options.NQN.
// ctx bounds the time until it is ready for use.
func (h *Host) Connect(ctx context.Context, options Options) (*Controller, error) {
	c, err := h.newController(options)
	if err != nil {
		return nil, err
	}
	ctx, shardIndex, leave, err := h.enter(ctx)
	if err != nil {
		return nil, errors.Join(err, c.domain.Close())
	}
	defer leave()
	if err := c.start(ctx, shardIndex); err != nil {
		return nil, errors.Join(err, c.tearDown(func(bool) error { return nil }))
	}
	h.register(c)
	return c, nil
}

func (h *Host) newController(options Options) (*Controller, error) {
	options = h.withDefaults(options)
	if err := options.check(); err != nil {
		return nil, err
	}
	c := &Controller{
		host: h, options: options, windows: h.attrs.Windows && !options.SharedKeys,
		pools: make([]*pool, len(h.shards)), done: make(chan struct{}), gone: make(chan struct{}),
	}
	c.ops.New = func() any { return c.newBlockingOp() }
	var err error
	if c.domain, err = h.device.NewDomain(); err != nil {
		return nil, fmt.Errorf("host: protection domain: %w", err)
	}
	return c, nil
}

// start connects and prepares everything.
func (c *Controller) start(ctx context.Context, shardIndex int) error {
	if err := c.startAdmin(ctx, shardIndex); err != nil {
		return err
	}
	if c.identify.CNTRLTYPE == capsule.ControllerTypeDiscovery || c.options.NrIOQueues < 0 {
		return nil
	}
	return c.startIO(ctx)
}

// startAdmin connects the admin queue, enables the controller and identifies it.
func (c *Controller) startAdmin(ctx context.Context, shardIndex int) error {
	if err := c.needPool(shardIndex); err != nil {
		return err
	}
	l, err := c.openLink(ctx, 0, shardIndex, adminDepth, 0)
	if err != nil {
		return err
	}
	c.admin = l
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"enabling the controller", c.enable},
		{"identifying the controller", c.learn},
		{"starting keep alive", c.startKeepAlive},
		{"asking for events", c.startEvents},
	}
	for _, s := range steps {
		if err := s.run(ctx); err != nil {
			return c.connectError(s.name, err)
		}
	}
	return nil
}

func (c *Controller) connectError(step string, err error) error {
	if errors.Is(err, rdmatransport.ErrDisconnected) && c.Err() != nil {
		err = c.Err()
	}
	return &ConnectError{c.options.addr(), step, err}
}

// needPool maps the buffers of a shard.
func (c *Controller) needPool(i int) error {
	if c.pools[i] != nil {
		return nil
	}
	p, err := newPool(c.host.shards[i], c.domain, c.options.bounceMemory(), c.windows)
	if err != nil {
		return err
	}
	c.pools[i] = p
	return p.shard.Call(p.attach)
}

// startIO asks for I/O queues and connects them, spread over the shards.
func (c *Controller) startIO(ctx context.Context) error {
	n, err := c.requestQueues(ctx, c.options.queues(len(c.host.shards)))
	if err != nil {
		return c.connectError("asking for I/O queues", err)
	}
	depth := c.limits.queueDepth(c.options.queueSize())
	for i := range n {
		at := i % len(c.host.shards)
		if err := c.needPool(at); err != nil {
			return err
		}
		l, err := c.openLink(ctx, capsule.QID(i+1), at, depth, c.limits.inCapsule)
		if err != nil {
			return err
		}
		lane := newLane(l)
		if err := l.shard.Call(lane.attach); err != nil {
			return err
		}
		c.lanes = append(c.lanes, lane)
	}
	return nil
}

// lost notes why the controller is gone and ends all of its queues. The loops
// call it.
func (c *Controller) lost(err error) {
	if c.isLost(err) {
		c.failQueues(err, true)
	}
}

// lostQueue is the loss of one queue. With an I/O queue the others of its kind end; the
// admin queue lives on until Disconnect, which shuts the controller down by it: that
// tells when the commands of the lost queue are over.
func (c *Controller) lostQueue(l *link, err error) {
	if c.isLost(err) {
		c.failQueues(err, l.qid == 0)
	}
}

// isLost notes why the controller is gone, and reports whether it was not before.
func (c *Controller) isLost(err error) bool {
	c.life.Lock()
	defer c.life.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	close(c.done)
	return true
}

func (c *Controller) failQueues(err error, admin bool) {
	for _, l := range c.links() {
		if admin || l.qid != 0 {
			l.shard.Do(func() { l.queue.Fail(err) })
		}
	}
}

// add notes a connected queue. It fails if the controller is lost already.
func (c *Controller) add(l *link) error {
	c.life.Lock()
	defer c.life.Unlock()
	if c.err == nil {
		c.open = append(c.open, l)
	}
	return c.err
}

// links are the queues that are connected.
func (c *Controller) links() []*link {
	c.life.Lock()
	defer c.life.Unlock()
	return slices.Clone(c.open)
}

// Done is closed when the controller is lost or disconnected.
func (c *Controller) Done() <-chan struct{} { return c.done }

// Err is why the controller is lost, [ErrClosed] after Disconnect, nil before.
func (c *Controller) Err() error {
	c.life.Lock()
	defer c.life.Unlock()
	return c.err
}

// ID is the controller's identifier.
func (c *Controller) ID() capsule.ControllerID { return c.cntlid }

// CAP is the property of capabilities, Version the property VS.
func (c *Controller) CAP() capsule.CAP { return c.cap }

// Version is the version of the specification that the controller follows.
func (c *Controller) Version() capsule.Version { return c.version }

// Identify is the controller's Identify data.
func (c *Controller) Identify() *capsule.IdentifyController { return &c.identify }

// IOQueues is how many I/O queues there are, and QueueDepth their entries.
func (c *Controller) IOQueues() int { return len(c.lanes) }

// QueueDepth is the size of each I/O queue.
func (c *Controller) QueueDepth() int { return c.limits.queueDepth(c.options.queueSize()) }

// MaxTransfer is how many bytes one command moves; longer requests are split.
func (c *Controller) MaxTransfer() int { return c.limits.write }
