package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const adminDepth = nvmeof.AdminQueueDepth

// Connect makes an association with a controller of the subsystem options.NQN.
// ctx bounds the time until it is ready for use. A host that was closed fails with
// [ErrClosed], whatever has become of its device.
func (h *Host) Connect(ctx context.Context, options Options) (*Controller, error) {
	while, shardIndex, leave, err := h.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	c, err := h.newController(options)
	if err != nil {
		return nil, err
	}
	if err := c.start(while, shardIndex); err != nil {
		if ctx.Err() == nil && errors.Is(err, context.Canceled) { // not by the caller
			err = errHostClosed
		}
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
	domain, err := h.device.NewDomain()
	if err != nil {
		return nil, fmt.Errorf("host: protection domain: %w", err)
	}
	c := &Controller{
		host: h, options: options, queues: association.New(),
		domain: &association.Domain{RDMA: domain, Windows: h.attrs.Windows && !options.SharedKeys},
		pools:  make([]*association.Pool, len(h.shards)), gone: make(chan struct{}),
	}
	c.operations.New = func() any { return operation.NewBlocking(c.nextIOQueue()) }
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
	if _, err := c.openQueue(ctx, 0, shardIndex, adminDepth); err != nil {
		return err
	}
	steps := []struct {
		name string
		run  func(context.Context) error
	}{
		{"enabling the controller", c.enable},
		{"identifying the controller", c.learn},
		{"enabling command retry delays", c.enableRetryDelays},
		{"starting keep alive", c.startKeepAlive},
		{"requesting events", c.startEvents},
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
	p, err := association.NewPool(c.host.shards[i], c.domain, c.options.bounceMemory())
	if err != nil {
		return err
	}
	c.pools[i] = p
	return c.host.shards[i].Call(p.Attach)
}

// startIO sets the number of I/O queues and connects them, spread over the shards.
func (c *Controller) startIO(ctx context.Context) error {
	n, err := c.requestQueues(ctx, c.options.queues(len(c.host.shards)))
	if err != nil {
		return c.connectError("requesting I/O queues", err)
	}
	depth := c.limits.queueDepth(c.options.queueSize())
	for i := range n {
		at := i % len(c.host.shards)
		if err := c.needPool(at); err != nil {
			return err
		}
		q, err := c.openQueue(ctx, capsule.QID(i+1), at, depth)
		if err != nil {
			return err
		}
		ioq := operation.NewIOQueue(q, c.limits.Limits, i, &c.namespaces)
		if err := q.Shard.Call(ioq.Attach); err != nil {
			return err
		}
		c.ioQueues = append(c.ioQueues, ioq)
	}
	return nil
}

// requestQueues requests I/O queues and returns how many are granted.
func (c *Controller) requestQueues(ctx context.Context, n int) (int, error) {
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminSetFeatures)}
	want := capsule.QueueCounts{Submission: n, Completion: n}
	capsule.SetFeatures{FID: capsule.FeatureNumberOfQueues, Value: want.Value()}.Put(&cmd)
	done, err := c.Admin(ctx, cmd, nil)
	if err != nil {
		return 0, err
	}
	got := capsule.ParseQueueCounts(done.DW0())
	return min(n, got.Submission, got.Completion), nil
}

// startKeepAlive begins to send Keep Alive, unless a discovery controller keeps no time.
func (c *Controller) startKeepAlive(context.Context) error {
	kato := c.options.keepAlive()
	if kato == 0 || c.identify.CNTRLTYPE == capsule.ControllerTypeDiscovery && c.identify.KAS == 0 {
		return nil
	}
	return c.keep.every(c.queues.Admin(), kato/2)
}

// startEvents enables the events that the caller wants.
func (c *Controller) startEvents(ctx context.Context) error {
	o := &c.options
	if o.Event == nil && o.Events == nil {
		return nil
	}
	if mask := eventMask(&c.identify, o.EventMask); mask != 0 {
		if err := c.Features().SetEventConfig(ctx, mask); err != nil {
			return err
		}
	}
	c.events = events{
		admin: c.queues.Admin(), done: c.Done(), call: o.Event, to: o.Events,
		arrived: make(chan capsule.AsyncEvent, 1), refused: make(chan struct{}, 1),
	}
	go c.events.receive() // owned by the controller; ends when it is lost
	return nil
}

// openQueue connects a queue: the RDMA connection, then the Connect command, then the
// host's proof.
func (c *Controller) openQueue(ctx context.Context, id capsule.QID, shardIndex, depth int) (*association.Queue, error) {
	cfg := fabric.HostConfig{
		Shard: c.host.shards[shardIndex], Domain: c.domain.RDMA, Attrs: c.host.attrs, Depth: depth,
		Descriptors: c.limits.descriptorsOf(id), Windows: c.domain.Windows, Timeout: c.options.timeout(),
	}
	if id == 0 {
		cfg.Reserved = 2 // for Aborts, and for Keep Alive and the shutdown
	} else {
		cfg.InCapsule = c.limits.inCapsule
	}
	q, err := c.queues.NewQueue(id, c.pools[shardIndex], cfg)
	if err != nil {
		return nil, err
	}
	step := fmt.Sprintf("connecting queue %d", id)
	if err := q.Connect(func(qp rdmatransport.QueuePair) error { return c.connectPair(ctx, q, qp) }); err != nil {
		return nil, c.connectError(step, errors.Join(err, q.Free()))
	}
	r, err := c.connectCommand(ctx, q)
	if err == nil {
		err = c.proveAtConnect(ctx, q, r)
	}
	if err == nil {
		err = c.queues.Add(q)
	}
	if err != nil {
		q.Disconnect()
		<-q.Ended()
		return nil, c.connectError(step, errors.Join(err, q.Free()))
	}
	return q, nil
}

// connectPair makes the RDMA connection of a queue, in which the controller says whether
// it takes the queue.
func (c *Controller) connectPair(ctx context.Context, q *association.Queue, qp rdmatransport.QueuePair) error {
	reply, err := c.host.device.Connect(ctx, qp, c.options.addr(), rdmatransport.ConnParams{
		PrivateData:        q.Fabric.RequestData(q.ID, c.cntlid), // 0 for the admin queue: none yet
		ResponderResources: min(c.host.attrs.MaxReadsIn, maxReads),
		RetryCount:         7, RNRRetryCount: 7, TrafficClass: c.options.TOS,
	})
	if errors.Is(err, context.DeadlineExceeded) { // before anybody accepted it
		return fmt.Errorf("%w: %w", rdmatransport.ErrUnreachable, err)
	}
	if err != nil {
		return err
	}
	return refuse(checkReply(reply))
}

// maxReads bounds the RDMA READs that we serve a controller: the field of the
// connection exchange has 8 bits.
const maxReads = 255

// checkReply reads what the controller attached. CRQSIZE has nothing that a
// host could act on.
func checkReply(r rdmatransport.ConnReply) error {
	d, err := capsule.DecodeAcceptData(r.PrivateData)
	if err != nil {
		return fmt.Errorf("reply to the connection request: %w", err)
	}
	if d.RECFMT != 0 {
		return fmt.Errorf("reply to the connection request has record format %d: not an NVMe controller of version 1", d.RECFMT)
	}
	return nil
}

// connectCommand sends Connect (NVMe base 2.0, 6.3).
func (c *Controller) connectCommand(ctx context.Context, q *association.Queue) (capsule.ConnectResponse, error) {
	o := &c.options
	cmd := capsule.FabricsCommand(capsule.FabricsConnect)
	fields := capsule.Connect{QID: q.ID, SQSIZE: uint16(q.Depth - 1)}
	data := capsule.ConnectData{
		HostID: o.HostID, CNTLID: capsule.ControllerIDDynamic,
		SubNQN: capsule.MakeNQNField(string(o.NQN)), HostNQN: capsule.MakeNQNField(string(o.HostNQN)),
	}
	if q.ID == 0 {
		fields.KATO = uint32(o.keepAlive() / time.Millisecond)
	} else {
		data.CNTLID = c.cntlid
	}
	if o.DisableSQFlow {
		fields.CATTR = capsule.ConnectNoFlowControl
	}
	fields.Put(&cmd)
	b := make([]byte, capsule.ConnectDataSize)
	data.Encode(b)
	done, err := execute(ctx, nil, q, cmd, b)
	if err != nil {
		return capsule.ConnectResponse{}, err
	}
	r := capsule.ParseConnectResponse(done.Result)
	return r, refuse(c.checkConnect(q.ID, r))
}

func (c *Controller) checkConnect(id capsule.QID, r capsule.ConnectResponse) error {
	switch {
	case r.ASCR:
		return errors.New("controller requires a secure channel, which NVMe over RDMA does not have")
	case r.CNTLID < capsule.ControllerIDMin || r.CNTLID > capsule.ControllerIDMax:
		return fmt.Errorf("controller has the reserved identifier %#x", uint16(r.CNTLID))
	case id == 0:
		c.cntlid = r.CNTLID
	case r.CNTLID != c.cntlid:
		return fmt.Errorf("queue was connected to controller %d instead of %d", r.CNTLID, c.cntlid)
	}
	return nil
}

// withDefaults completes options from the host's identity.
func (h *Host) withDefaults(o Options) Options {
	if o.HostNQN == "" {
		o.HostNQN = h.identity.NQN
	}
	if o.HostID == (capsule.HostID{}) {
		o.HostID = h.identity.ID
	}
	return o
}
