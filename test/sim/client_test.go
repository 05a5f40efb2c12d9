package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A client is a simulated host process with workers. Only the goroutine of fate starts and ends it.
type client struct {
	w        *world
	id       int
	addr     netip.Addr
	rng      [workers]*rand.Rand
	next     [workers]int // number of the next write
	fastFail time.Duration

	up     bool
	lives  atomic.Int32 // how often it has started
	dying  atomic.Bool  // operations in progress may be executed at any later time
	cancel context.CancelFunc
	device rdmatransport.Device
	host   *host.Host
	wait   sync.WaitGroup // for its workers, once it is connected

	mu         sync.Mutex // guards what follows
	sub        *multipath.Subsystem
	ns         *multipath.Namespace // nil until it is connected
	registered bool                 // with the reservation's key
	live       map[*multipath.Path]bool
	lost       []time.Duration // when live paths were lost
}

func newClient(w *world, id int, rng *rand.Rand) *client {
	c := &client{w: w, id: id, addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + id)}), live: map[*multipath.Path]bool{}}
	for i := range c.rng {
		c.rng[i] = w.stream(fmt.Sprintf("worker %d of host %d", i, id))
	}
	c.fastFail = pick(rng, 0, 0, 2*time.Second)
	return c
}

func (c *client) name() string { return "host " + string('A'+rune(c.id)) }

func (c *client) start() error {
	var err error
	if c.device, err = softroce.Open(softroce.Config{Addr: c.addr, Network: c.w.network}); err != nil {
		return err
	}
	if c.host, err = host.New(host.Config{Device: c.device, Shards: 1, Polling: nvmeof.PollNever, Identity: identity(c.id)}); err != nil {
		return err
	}
	c.w.isolate(c.addr, false)
	for _, s := range c.w.servers {
		if s.target == nil { // the target stays down
			for _, p := range s.ports {
				c.w.isolate(p.addr.Addr(), true)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.up = cancel, true
	c.lives.Add(1)
	c.dying.Store(false)
	c.w.note(c.name(), "starts")
	c.wait.Go(func() { c.run(ctx) })
	return nil
}

// kill ends the host without a message to any target.
func (c *client) kill() {
	c.w.isolate(c.addr, true)
	c.w.note(c.name(), "is killed")
	c.stop()
}

func (c *client) stop() {
	c.dying.Store(true)
	c.cancel()
	c.mu.Lock()
	sub := c.sub
	c.sub, c.ns = nil, nil
	c.mu.Unlock()
	if sub != nil {
		c.w.must(sub.Close())
	}
	c.wait.Wait()
	c.w.must(c.host.Close())
	c.w.must(c.device.Close())
	c.up = false
}

func (c *client) run(ctx context.Context) {
	for ctx.Err() == nil {
		if ns, err := c.connect(ctx); err == nil {
			for i := range workers {
				c.wait.Go(func() { c.work(ctx, ns, i) })
			}
			return
		}
		sleep(ctx, time.Second)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (c *client) connect(ctx context.Context) (*multipath.Namespace, error) {
	w := c.w
	cfg := multipath.Config{NQN: subNQN, Policy: w.policy, Event: c.pathChanged}
	for _, p := range w.allPorts() {
		cfg.Paths = append(cfg.Paths, multipath.PathConfig{
			Host: c.host, Options: c.options(p),
			Timers: multipath.Timers{ReconnectDelay: 5 * time.Second, CtrlLossTmo: -1, FastIOFailTmo: c.fastFail},
		})
	}
	sub, err := multipath.Connect(ctx, cfg)
	if err != nil {
		w.note(c.name(), "does not connect: %v", err)
		return nil, err
	}
	ns, err := sub.Namespace(ctx, nsid)
	if err == nil && w.fencing && !w.isFenced(c.id) {
		err = c.register(ctx, ns)
	}
	if err != nil {
		w.note(c.name(), "does not get its namespace: %v", err)
		w.must(sub.Close())
		return nil, err
	}
	c.mu.Lock()
	if ctx.Err() == nil {
		c.sub, c.ns = sub, ns
	}
	c.mu.Unlock()
	if ctx.Err() != nil && c.namespace() != ns { // the host was killed meanwhile
		w.must(sub.Close())
		return nil, ctx.Err()
	}
	w.note(c.name(), "is connected")
	return ns, nil
}

// pathChanged records when paths are lost, because the commands in progress on a lost path are sent again on another.
func (c *client) pathChanged(e multipath.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := e.State == multipath.StateLive
	if c.live[e.Path] && !live {
		c.lost = append(c.lost, c.w.clock())
	}
	c.live[e.Path] = live
}

// losses returns the number of paths lost within a period.
func (c *client) losses(from, to time.Duration) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.lost {
		if from <= at && at <= to {
			n++
		}
	}
	return n
}

func (c *client) options(p *port) host.Options {
	return host.Options{
		Traddr: p.addr.Addr(), Trsvcid: p.addr.Port(), KeepAliveTmo: c.w.kato, NrIOQueues: 1, QueueSize: c.w.depth, BounceMemory: 1 << 20,
		DHCHAPSecret: c.w.key, DHCHAPCtrlSecret: c.w.ctrlKey,
	}
}

// pretend connects to a port with a wrong key or with none, which must fail.
func (c *client) pretend(p *port, key auth.Key) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	o := c.options(p)
	o.NQN, o.DHCHAPSecret, o.DHCHAPCtrlSecret = subNQN, key, auth.Key{}
	ctrl, err := c.host.Connect(ctx, o)
	if err != nil {
		c.w.note(c.name(), "is not let in as such: %v", err)
		return
	}
	c.w.violation("%s is let in by %v without its key", c.name(), p.addr)
	_ = ctrl.Disconnect(ctx)
}

func (c *client) namespace() *multipath.Namespace {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ns
}

// work runs a worker. It writes mostly its own blocks, sometimes shared ones.
func (c *client) work(ctx context.Context, ns *multipath.Namespace, id int) {
	k := &worker{c: c, id: id, rng: c.rng[id], ns: ns}
	if id == 0 {
		k.queued(ctx)
		return
	}
	for k.pause(ctx) {
		k.blocking(ctx)
	}
}

// end records the end of an operation. If its outcome is unknown, it may still be executed at any time.
func (c *client) end(o *operation, err error) {
	c.w.end(o, err)
	var unknown *multipath.UnknownError
	if err != nil && (c.dying.Load() || errors.As(err, &unknown) || errors.Is(err, multipath.ErrClosed)) {
		c.w.mu.Lock()
		o.end = never
		c.w.mu.Unlock()
	}
}

// A worker issues operations from one goroutine.
type worker struct {
	c   *client
	id  int
	rng *rand.Rand
	ns  *multipath.Namespace
}

// pause sleeps for a random time and reports whether to continue.
func (k *worker) pause(ctx context.Context) bool {
	sleep(ctx, time.Duration(k.rng.ExpFloat64()*float64(400*time.Millisecond)))
	return ctx.Err() == nil
}

func (k *worker) value() value {
	k.c.next[k.id]++
	return newValue(k.c.id, k.id, k.c.next[k.id])
}

// group chooses the blocks to write: the worker's own or shared ones.
func (k *worker) group() int {
	if k.rng.IntN(3) == 0 {
		return maxClients*workers + k.rng.IntN(groups-maxClients*workers)
	}
	return k.c.id*workers + k.id
}

// choose returns a random operation.
func (k *worker) choose() operation {
	o := operation{host: k.c.id, worker: k.id, kind: write}
	n := pick(k.rng, 1, 1, 1, 2, 4)
	switch k.rng.IntN(8) {
	case 0:
		o.kind = flush
		return o
	case 1, 2, 3:
		o.kind = read
		o.first = k.rng.IntN(groups)*groupSize + k.rng.IntN(groupSize-n+1)
		o.values = make([]value, n)
		return o
	}
	o.first = k.group()*groupSize + k.rng.IntN(groupSize-n+1)
	v := value(0)
	if k.rng.IntN(16) > 0 {
		v = k.value()
	}
	for range n {
		o.values = append(o.values, v)
	}
	return o
}

func (k *worker) blockSize() int { return k.c.w.disk.blockSize }

func (k *worker) buffer(o *operation) []byte {
	b := make([]byte, len(o.values)*k.blockSize())
	if o.kind == write {
		for i, v := range o.values {
			fill(b[i*k.blockSize():][:k.blockSize()], o.first+i, v)
		}
	}
	return b
}

// found records the values that a read returned.
func (k *worker) found(o *operation, b []byte) {
	for i := range o.values {
		v, err := valueOf(b[i*k.blockSize():][:k.blockSize()], o.first+i)
		if err != nil {
			k.c.w.violation("a read of event %d returned a block that nobody wrote: %v", o.call, err)
		}
		o.values[i] = v
	}
}

func (k *worker) blocking(ctx context.Context) {
	switch k.rng.IntN(4) {
	case 0:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(k.rng.ExpFloat64()*float64(time.Second)))
		defer cancel()
	case 1:
		if k.rng.IntN(2) == 0 {
			k.swap(ctx)
			return
		}
	}
	o := k.c.w.begin(k.choose())
	b, at := k.buffer(o), int64(o.first*k.blockSize())
	var err error
	switch {
	case o.kind == flush:
		err = k.ns.FlushContext(ctx)
	case o.kind == read:
		if _, err = k.ns.ReadAtContext(ctx, b, at); err == nil {
			k.found(o, b)
		}
	case o.values[0] == 0:
		err = k.ns.WriteZeroesContext(ctx, at, int64(len(b)), k.rng.IntN(2) == 0)
	default:
		_, err = k.ns.WriteAtContext(ctx, b, at)
	}
	k.c.end(o, err)
}

// swap reads a block and replaces its content with Compare and Write.
func (k *worker) swap(ctx context.Context) {
	block := k.group()*groupSize + k.rng.IntN(groupSize)
	size, at := k.blockSize(), int64(block*k.blockSize())
	r := k.c.w.begin(operation{host: k.c.id, worker: k.id, kind: read, first: block, values: make([]value, 1)})
	old, next := make([]byte, size), make([]byte, size)
	if _, err := k.ns.ReadAtContext(ctx, old, at); err != nil {
		k.c.end(r, err)
		return
	}
	k.found(r, old)
	k.c.end(r, nil)
	v := k.value()
	fill(next, block, v)
	o := k.c.w.begin(operation{host: k.c.id, worker: k.id, kind: swap, first: block, values: []value{v}, expected: r.values[0]})
	err := k.ns.Use(ctx, multipath.Once, func(ns *host.Namespace) error { return ns.CompareAndWrite(ctx, at, old, next) })
	o.miscompare = errors.Is(err, backend.ErrMiscompare)
	k.c.end(o, err)
}

// queueDepth is the number of requests that a worker with a queue has in flight.
const queueDepth = 3

// queued issues batches of operations on a queue.
func (k *worker) queued(ctx context.Context) {
	wake := make(chan struct{}, 1)
	q, err := k.ns.OpenQueue(queueDepth, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		k.c.w.note(k.c.name(), "gets no queue: %v", err)
		return
	}
	for k.pause(ctx) {
		k.batch(q, wake)
	}
	k.c.w.must(q.Close())
}

func (k *worker) batch(q *multipath.Queue, wake chan struct{}) {
	var ops [queueDepth]*operation
	var rs []backend.Request
	n := 1 + k.rng.IntN(queueDepth)
	for i := range n {
		o := k.choose()
		r := backend.Request{Tag: uint64(i), Offset: int64(o.first * k.blockSize()), Length: int64(len(o.values) * k.blockSize())}
		switch {
		case o.kind == flush:
			r.Op = backend.OpFlush
		case o.kind == read:
			r.Op = backend.OpRead
		default:
			r.Op = backend.OpWrite
			o.fua = k.rng.IntN(3) == 0
			if r.FUA = o.fua; o.values[0] == 0 && k.rng.IntN(2) == 0 {
				r.Op = backend.OpWriteZeroes
			}
		}
		ops[i] = k.c.w.begin(o)
		if r.Op == backend.OpRead || r.Op == backend.OpWrite {
			r.Buf = k.buffer(ops[i])
		}
		rs = append(rs, r)
	}
	if got := q.Submit(rs); got != n {
		k.c.w.violation("a queue of %d takes %d of %d", queueDepth, got, n)
	}
	var results [queueDepth]backend.Result
	for n > 0 {
		m := q.Poll(results[:])
		for _, res := range results[:m] {
			o := ops[res.Tag]
			if o.kind == read && res.Err == nil {
				k.found(o, rs[res.Tag].Buf)
			}
			k.c.end(o, res.Err)
		}
		if n -= m; m == 0 {
			<-wake
		}
	}
}

func key(host int) capsule.ReservationKey { return capsule.ReservationKey(0x1000 + host) }

const reservation = capsule.ReservationWriteExclusiveAllRegistrants

// register makes the host a registrant. The first host to register also acquires the reservation.
func (c *client) register(ctx context.Context, ns *multipath.Namespace) error {
	c.w.registering(c.id)
	err := ns.Use(ctx, multipath.Once, func(n *host.Namespace) error {
		return n.Reservations().Register(ctx, key(c.id), host.RegisterOptions{IgnoreKey: true, Persist: host.PersistAlways})
	})
	if err != nil {
		return err
	}
	c.w.hasRegistered(c.id)
	err = ns.Use(ctx, multipath.Once, func(n *host.Namespace) error {
		return n.Reservations().Acquire(ctx, key(c.id), reservation)
	})
	if err != nil && !errors.Is(err, host.ErrReserved) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.registered = true
	c.w.note(c.name(), "is a registrant")
	return nil
}
