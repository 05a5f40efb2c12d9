//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const (
	defaultDepth = 4096
	pollBatch    = 64 // completions taken in one call
	// controlInterval is how often a queue that is polled without sleeping looks at
	// the RDMA CM, which costs two system calls.
	controlInterval = time.Millisecond
	// presenceInterval is how often the device is looked for in sysfs: where its driver
	// cannot take it from its users (rdma_rxe), the kernel waits for them to close it,
	// and neither the device nor the RDMA CM says so.
	presenceInterval = time.Second
	// unarmedLimit bounds a Wait before which nobody called Due.
	unarmedLimit = time.Millisecond
)

// completionQueue implements rdmatransport.CompletionQueue over an ibv_cq.
type completionQueue struct {
	dev      *device
	cq       *C.struct_ibv_cq // nil once closed
	channel  *C.struct_ibv_comp_channel
	capacity int // entries of cq
	reserved int // most entries that the queue pairs can fill

	waiter waiter
	mail   mailbox
	armed  atomic.Bool // a completion makes the channel readable

	now     time.Duration // of this turn, since the device was opened
	busy    bool
	carries bool          // the RDMA CM is ours to poll
	looked  time.Duration // when it last was
	present time.Duration // when the device was last there

	qps     map[uint32]*queuePair            // by serial
	shared  map[uint32]*sharedReceiveQueue   // by serial
	sharers map[rdmatransport.QPN]*queuePair // those with shared receives
	serial  uint32                           // of the last one, of either kind
	backlog []queued                         // completions found before they were asked for
	chain   uint64                           // number of the last chain posted

	// Room for one call each.
	wcs   []C.struct_nv_wc
	sends []C.struct_nv_send
	recvs []C.struct_nv_recv
	sges  []C.struct_nv_sge
	event C.struct_nv_event
	async C.struct_nv_async
	done  rdmatransport.Completion // the last one translated
}

// A queued completion is one of a queue pair that may be closed before it is told.
type queued struct {
	serial uint32
	rdmatransport.Completion
}

func newCompletionQueue(d *device, depth, vector int) (*completionQueue, error) {
	if depth <= 0 {
		depth = defaultDepth
	}
	depth = min(depth, int(d.hw.max_cqe))
	c := &completionQueue{dev: d, qps: map[uint32]*queuePair{}, shared: map[uint32]*sharedReceiveQueue{},
		sharers: map[rdmatransport.QPN]*queuePair{}, wcs: make([]C.struct_nv_wc, pollBatch)}
	var fd, got C.int
	code := C.nv_create_cq(d.lib, d.context, C.int(depth), C.int(vector), &c.channel, &c.cq, &fd, &got)
	if err := failure(code, fmt.Sprintf("creating a completion queue of %d entries", depth)); err != nil {
		return nil, err
	}
	c.capacity = int(got)
	if err := c.waiter.open(int(fd)); err != nil {
		C.nv_destroy_cq(d.lib, c.channel, c.cq)
		return nil, fmt.Errorf("verbs: epoll for a completion queue: %w", err)
	}
	return c, nil
}

// carry makes this queue the one that polls the RDMA CM.
func (c *completionQueue) carry() error {
	for i, fd := range [...]int{c.dev.cmFD, c.dev.asyncFD} {
		if err := c.waiter.add(fd); err != nil {
			return fmt.Errorf("verbs: epoll for the RDMA CM: %w", err)
		}
		c.waiter.controls[i] = fd
	}
	c.carries = true
	return nil
}

// do runs f on the goroutine that drives the queue.
func (c *completionQueue) do(f func()) {
	c.mail.put(f)
	c.waiter.wake()
}

// reserve sees to it that n more completions fit: a queue that overflows is lost.
func (c *completionQueue) reserve(n int) error {
	need, limit := c.reserved+n, int(c.dev.hw.max_cqe)
	if need > limit {
		return fmt.Errorf("verbs: %d completions would be outstanding on one completion queue, the limit of %s is %d: use more shards or shorter queues",
			need, c.dev.attrs.Name, limit)
	}
	if need > c.capacity {
		var got C.int
		code := C.nv_resize_cq(c.dev.lib, c.cq, C.int(min(limit, max(need, 2*c.capacity))), &got)
		if err := failure(code, fmt.Sprintf("growing a completion queue to %d entries", need)); err != nil {
			return err
		}
		c.capacity = int(got)
	}
	c.reserved = need
	return nil
}

// Poll implements rdmatransport.CompletionQueue.
func (c *completionQueue) Poll(cs []rdmatransport.Completion) int {
	c.now = c.dev.clock()
	if len(cs) == 0 {
		return 0
	}
	c.busy = c.mail.run()
	if c.carries {
		c.control()
	}
	n := c.unload(cs)
	for n < len(cs) {
		want := min(len(cs)-n, pollBatch)
		got := c.take(want)
		for i := range c.wcs[:got] {
			q, done := c.translate(&c.wcs[i])
			if done != nil {
				cs[n] = *done
				n++
			}
			if q != nil {
				q.flushWaiting()
			}
		}
		if got < want {
			break
		}
	}
	n += c.unload(cs[n:])
	c.busy = c.busy || n > 0
	return n
}

// take polls the device for up to n entries of wcs.
func (c *completionQueue) take(n int) int {
	if c.cq == nil {
		return 0
	}
	got := int(C.nv_poll_cq(c.cq, &c.wcs[0], C.int(n), C.int(c.dev.hw.kernel_flags)))
	if got < 0 {
		c.dev.lose(ErrBroken)
		return 0
	}
	return got
}

// load moves what the device has completed to the backlog.
func (c *completionQueue) load() {
	for got := pollBatch; got == pollBatch; {
		got = c.take(pollBatch)
		for i := range c.wcs[:got] {
			q, done := c.translate(&c.wcs[i])
			if done != nil {
				c.backlog = append(c.backlog, queued{serialOf(q), *done})
			}
			if q != nil {
				q.flushWaiting()
			}
		}
	}
}

// unload hands out the backlog.
func (c *completionQueue) unload(cs []rdmatransport.Completion) int {
	n := min(len(cs), len(c.backlog))
	if n == 0 {
		return 0
	}
	for i := range n {
		cs[i] = c.backlog[i].Completion
	}
	c.backlog = append(c.backlog[:0], c.backlog[n:]...)
	return n
}

// drop takes a closed queue pair out of the backlog, but for the shared receives that it
// had taken.
func (c *completionQueue) drop(q *queuePair) {
	kept := c.backlog[:0]
	for _, b := range c.backlog {
		receive := b.Op == rdmatransport.OpRecv || b.Op == rdmatransport.OpRecvWriteImm
		switch {
		case b.serial != q.serial:
			kept = append(kept, b)
		case receive && q.shared != nil:
			kept = append(kept, queued{0, rdmatransport.Completion{
				ID: b.ID, QPN: b.QPN, Op: rdmatransport.OpRecv, Status: rdmatransport.StatusFlushed,
			}})
		}
	}
	c.backlog = kept
}

// newSerial numbers a queue pair or a shared receive queue; 0 is none.
func (c *completionQueue) newSerial() uint32 {
	for c.serial++; c.serial == 0 || c.qps[c.serial] != nil || c.shared[c.serial] != nil; c.serial++ {
	}
	return c.serial
}

func serialOf(q *queuePair) uint32 {
	if q == nil {
		return 0
	}
	return q.serial
}

// Flush implements rdmatransport.CompletionQueue: posts ring doorbells at once.
func (c *completionQueue) Flush() {}

// Wait implements rdmatransport.CompletionQueue.
func (c *completionQueue) Wait(d int64) {
	limit := time.Duration(d)
	if !c.armed.Load() && (limit < 0 || limit > unarmedLimit) {
		limit = unarmedLimit
	}
	c.waiter.wait(limit)
}

// Due implements rdmatransport.CompletionQueue. It is what an owner calls before it
// sleeps, and arms the completion channel.
func (c *completionQueue) Due() int64 {
	if c.mail.full.Load() || len(c.backlog) > 0 || !c.arm() {
		return 0
	}
	if c.carries {
		return int64(max(0, c.present+presenceInterval-c.dev.clock()))
	}
	return -1
}

// arm makes the next completion wake a Wait. It reports false if there is one
// already: after arming the queue must be looked at once more (ibv_req_notify_cq(3)).
func (c *completionQueue) arm() bool {
	if c.cq == nil || c.armed.Load() && C.nv_take_cq_events(c.dev.lib, c.channel) == 0 {
		return true
	}
	c.armed.Store(C.nv_arm_cq(c.cq) == 0)
	c.load()
	return len(c.backlog) == 0
}

// Wake implements rdmatransport.CompletionQueue.
func (c *completionQueue) Wake() { c.waiter.wake() }

// Watch implements rdmatransport.CompletionQueue.
func (c *completionQueue) Watch(fd int) error { return c.waiter.add(fd) }

// Now implements rdmatransport.CompletionQueue.
func (c *completionQueue) Now() int64 { return int64(c.now) }

// Busy implements rdmatransport.CompletionQueue.
func (c *completionQueue) Busy() bool { return c.busy }

// ReceiveBudget implements rdmatransport.CompletionQueue: an RNIC has no bound.
func (c *completionQueue) ReceiveBudget() int { return 0 }

// abandon ends all queue pairs of a device that is lost.
func (c *completionQueue) abandon(why error) {
	for _, q := range c.qps {
		q.fail(why)
		q.send.abandon()
		q.recv.abandon()
		q.flushWaiting()
	}
}

func (c *completionQueue) closeQueuePairs() error {
	var errs []error
	for _, q := range c.qps {
		errs = append(errs, q.Close())
	}
	return errors.Join(errs...)
}

// Close implements rdmatransport.CompletionQueue.
func (c *completionQueue) Close() error {
	if !c.dev.forget(c) {
		return nil
	}
	return errors.Join(c.closeQueuePairs(), c.closeShared(), c.destroy())
}

func (c *completionQueue) destroy() error {
	cq := c.cq
	c.cq = nil
	C.nv_take_cq_events(c.dev.lib, c.channel) // what is not acknowledged would block
	err := c.dev.freed(C.nv_destroy_cq(c.dev.lib, c.channel, cq), "destroying a completion queue")
	c.waiter.close()
	return err
}

var _ rdmatransport.CompletionQueue = (*completionQueue)(nil)
