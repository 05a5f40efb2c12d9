package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/discoverylog"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Listener is an address on which the target accepts connections.
type Listener struct {
	target   *Target
	device   *Device
	listener rdmatransport.Listener
	port     port
	removed  atomic.Bool   // no more connections are accepted
	ended    chan struct{} // closed when the accept loop has returned
	err      error         // why the loop returned; set before ended is closed

	mu  sync.Mutex // serializes changes of the states
	ana atomic.Pointer[ana.Table]
}

// ListenerConfig describes a listener. A zero field takes the default.
type ListenerConfig struct {
	Addr netip.AddrPort // required: an address of the device; port 0 picks a free one
	// ID is the identifier by which SetPorts selects the listener; default: the lowest that no listener of the
	// target has.
	ID PortID
	// ANA sets the initial states of groups; default: optimized.
	ANA map[capsule.ANAGroup]capsule.ANAState
}

func newListener(d *Device, rl rdmatransport.Listener, p port, paths *ana.Table) *Listener {
	l := &Listener{target: d.target, device: d, listener: rl, port: p, ended: make(chan struct{})}
	l.ana.Store(paths)
	return l
}

// Addr returns the address, with the actual port if port 0 was configured.
func (l *Listener) Addr() netip.AddrPort { return l.port.addr }

// Done returns a channel that is closed when the listener accepts no more connections: it was removed, the target
// was closed, or its device is lost. A lost device has to be removed and closed, and another one added instead.
func (l *Listener) Done() <-chan struct{} { return l.ended }

// Err waits for Done and returns the reason: [rdmatransport.ErrClosed], or an error that wraps
// [rdmatransport.ErrDeviceLost].
func (l *Listener) Err() error {
	<-l.ended
	return l.err
}

// Listen accepts connections at an address of the first device. The listener gets the lowest free identifier.
func (t *Target) Listen(addr netip.AddrPort) (*Listener, error) {
	if t.first == nil {
		return nil, errors.New("target: Listen needs Config.Device; after AddDevice, use Device.Listen")
	}
	return t.first.Listen(ListenerConfig{Addr: addr})
}

// Listen accepts connections at an address of the device. The states of ListenerConfig.ANA apply from the hosts'
// first command on.
func (d *Device) Listen(c ListenerConfig) (*Listener, error) {
	t := d.target
	paths, err := ana.NewTable(c.ANA)
	if err != nil {
		return nil, err
	}
	if !d.use() {
		return nil, fmt.Errorf("listening on %v: %w", c.Addr, rdmatransport.ErrClosed)
	}
	defer d.unuse()
	rl, err := d.rdma.Listen(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %v: %w", c.Addr, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || d.removed {
		return nil, errors.Join(rdmatransport.ErrClosed, rl.Close())
	}
	if c.ID == 0 {
		c.ID = t.freePort()
	}
	if t.listener(c.ID) != nil || peerOf(t, c.ID) {
		return nil, errors.Join(fmt.Errorf("listener %d exists already", c.ID), rl.Close())
	}
	if g := t.cfg.Gateway; g != nil {
		paths = paths.Owned(g.owned.Load()) // later changes of ownership apply to the listener, too
	}
	l := newListener(d, rl, port{c.ID, rl.Addr()}, paths)
	t.reshapeLocked(nil, func() {
		t.listeners = append(slices.Clone(t.listeners), l)
		slices.SortFunc(t.listeners, func(a, b *Listener) int { return cmp.Compare(a.port.id, b.port.id) })
	})
	t.tasks.Go(l.accept) // ends when the target closes the listener
	t.log.Info("listening", zap.Stringer("address", rl.Addr()))
	l.recordEvent(events.Info, "listener is open")
	return l, nil
}

// use keeps the device's shards running until unuse: a device may not answer without them. It returns false if the
// device was removed.
func (d *Device) use() bool {
	d.target.mu.Lock()
	defer d.target.mu.Unlock()
	if d.target.closed || d.removed {
		return false
	}
	d.target.tasks.Add(1)
	d.queues.Add(1)
	return true
}

func (d *Device) unuse() {
	d.queues.Done()
	d.target.tasks.Done()
}

// accept serves connection requests until the listener is closed or its device lost.
func (l *Listener) accept() {
	defer close(l.ended)
	l.err = rdmatransport.ErrClosed
	for {
		req, err := l.listener.Accept(l.target.context)
		switch {
		case errors.Is(err, rdmatransport.ErrClosed), errors.Is(err, context.Canceled):
			return
		case errors.Is(err, rdmatransport.ErrDeviceLost):
			l.err = err
			l.target.log.Warn("listener ended", zap.Stringer("address", l.Addr()), zap.Error(err))
			l.recordEvent(events.Error, "listener ended: "+err.Error())
			return
		case err != nil:
			l.target.log.Trouble("accepting a connection failed", zap.Error(err))
			if !l.target.pause(100 * time.Millisecond) {
				return
			}
			continue
		}
		if !l.awaitMover() {
			return // the process that continues gets the request again
		}
		l.serve(req)
	}
}

// pause waits for d. It returns false if the target closes meanwhile.
func (t *Target) pause(d time.Duration) bool {
	select {
	case <-t.context.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// serve checks a connection request and assigns it to the device's least loaded shard.
func (l *Listener) serve(req rdmatransport.ConnRequest) {
	t := l.target
	d, status := fabric.CheckRequest(req, t.cfg.limits())
	if status != 0 {
		t.reject(req, d, status, "")
		return
	}
	if t.waiting.refuses(req.RemoteAddr().Addr(), time.Now()) {
		t.reject(req, d, capsule.RejectNoResources, "too many connections from this address have not sent a Connect command or not authenticated yet")
		return
	}
	w := l.device.leastLoaded()
	q := t.newQueue(w, l, d.QID, uint32(d.HSQSIZE)+1)
	q.local, q.remote = req.LocalAddr(), req.RemoteAddr()
	if why := t.admitQueue(q, req); why != "" {
		t.reject(req, d, capsule.RejectNoResources, why)
	}
}

// admitQueue maps the queue's memory and accepts the connection in the queue's shard.
func (t *Target) admitQueue(q *queue, req rdmatransport.ConnRequest) (why string) {
	fq, why := q.enter(t.waiting.knows(q.remote.Addr(), time.Now()), false)
	if why == "" && !q.shard.Do(func() { q.accept(fq, req) }) {
		q.onClosed()
	}
	return why
}

// enter maps the queue's memory and registers the queue with the target. Known means that its address had a
// connected host before, adopted that it continues a queue of another process.
func (q *queue) enter(known, adopted bool) (fq *fabric.TargetQueue, why string) {
	t := q.target
	cfg := fabric.TargetConfig{
		Shard: q.shard, Domain: q.worker.device.site.Domain, Attrs: q.worker.device.attrs, Handler: q,
		Depth: int(q.entries), InCapsule: t.cfg.InCapsule, MaxData: t.cfg.MaxData,
		MaxDescriptors: maxDescriptors, MaxPieces: 2, PlainSend: t.cfg.PlainSend, Dispatcher: q.worker.turns, Admin: q.id == 0,
	}
	if q.id != 0 {
		cfg.Shared = q.worker.shared
	}
	need := int64(cfg.Footprint(requestMemory))
	if adopted {
		t.memory.carryOver(&q.mapping, q.remote.Addr(), need)
	} else if why = t.memory.take(&q.mapping, q.remote.Addr(), need, known); why != "" {
		t.giveWay(t.waiting.relieve(q.remote.Addr()))
		return nil, why
	}
	fq, err := fabric.NewTarget(cfg)
	if err != nil {
		t.memory.give(&q.mapping)
		return nil, err.Error()
	}
	q.wire = fq
	q.onClosed = func() { t.freeQueue(q, fq.Free) }
	if !t.register(q, need) {
		t.memory.give(&q.mapping)
		return nil, errors.Join(rdmatransport.ErrClosed, fq.Free()).Error()
	}
	return fq, ""
}

// accept accepts the connection. It runs in the queue's shard.
func (q *queue) accept(fq *fabric.TargetQueue, req rdmatransport.ConnRequest) {
	err := q.target.context.Err() // Close relies on it
	if q.listener.removed.Load() {
		err = rdmatransport.ErrClosed
	}
	if q.gaveWay {
		err = errGaveWay
	}
	if err == nil {
		err = fq.Accept(req, rdmatransport.ConnParams{})
	}
	if err != nil {
		q.target.log.Trouble("accepting the connection failed", zap.Stringer("peer", q.remote), zap.Error(err))
		if err := fabric.Reject(req, capsule.RejectNoResources); err != nil {
			q.target.log.Trouble("rejecting the connection failed too", zap.Stringer("peer", q.remote), zap.Error(err))
		}
		q.refused = true
		q.onClosed()
		return
	}
	q.qpn = fq.QPN()
	q.start(fq.Commands())
}

// reject rejects a connection request and logs the peer, the reason and, if there is one, the remedy.
func (t *Target) reject(req rdmatransport.ConnRequest, d capsule.RequestData, s capsule.RejectStatus, why string) {
	fields := []zap.Field{
		zap.Stringer("peer", req.RemoteAddr()), zap.Stringer("status", s),
		zap.Uint16("qid", uint16(d.QID)), zap.Uint16("hsqsize", d.HSQSIZE), zap.Uint16("hrqsize", d.HRQSIZE),
	}
	if why != "" {
		fields = append(fields, zap.String("reason", why))
	}
	if s == capsule.RejectInvalidHSQSIZE {
		remedy := fmt.Sprintf("nvme connect --queue-size %d, or raise limits.queue-depth of the target's configuration", t.cfg.QueueDepth)
		if d.QID == 0 {
			remedy = fmt.Sprintf("connect with an admin queue of at most %d entries (SPDK: admin_queue_size)", discoverylog.AdminDepth)
		}
		fields = append(fields, zap.String("remedy", remedy))
	}
	t.causes.Count(meter.Rejects, "", label(s.String()), "")
	t.log.Trouble("connection rejected", fields...)
	recordEvent(t, events.Refused, events.Warning, events.Event{Address: req.RemoteAddr().String(), Text: because("connection rejected: "+s.String(), why)})
	if err := fabric.Reject(req, s); err != nil {
		t.log.Trouble("rejecting a connection failed", zap.Stringer("peer", req.RemoteAddr()), zap.Error(err))
	}
}

// leastLoaded returns the worker with the fewest queues.
func (d *Device) leastLoaded() *worker {
	least := d.workers[0]
	for _, w := range d.workers[1:] {
		if w.queues.Load() < least.queues.Load() {
			least = w
		}
	}
	return least
}

// register adds a queue to the target. It returns false if the target is closing or the device is being removed.
func (t *Target) register(q *queue, memory int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || q.worker.device.removed {
		return false
	}
	q.worker.device.queues.Add(1)
	t.queues[q] = struct{}{}
	q.worker.queues.Add(1)
	t.tasks.Add(1)
	t.giveWay(t.waiting.enter(q, memory, time.Now()))
	return true
}

// freeQueue releases what register and admitQueue acquired. Unmapping may take long, so a goroutine does it
// instead of the shard.
func (t *Target) freeQueue(q *queue, free func() error) {
	t.waiting.leave(q, time.Now())
	q.worker.queues.Add(-1)
	go func() { // ends by itself; Close waits for it
		defer t.tasks.Done()
		defer q.worker.device.queues.Done()
		if err := free(); err != nil {
			t.log.Error("freeing a queue", zap.Error(err))
		}
		t.memory.give(&q.mapping)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.queues, q)
	}()
}
