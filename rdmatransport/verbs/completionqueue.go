//go:build verbs && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/internal/mailbox"
	"github.com/nvmeof-go/nvmeof/rdmatransport/verbs/internal/ccall"
)

const (
	defaultDepth = 4096
	pollBatch    = 64 // maximum number of completions per call
	// controlInterval is the interval at which a queue that is polled without sleeping checks the RDMA CM, which
	// costs two system calls. A sleep checks it too.
	controlInterval = 16 * time.Millisecond
	// presenceInterval is the interval at which sysfs is checked for the device. If a driver cannot take its device
	// from its users (rdma_rxe), the kernel waits until they close it, and neither the device nor the RDMA CM reports
	// that.
	presenceInterval = time.Second
	// relaxedInterval is the maximum delay of completions of relaxed sends during a sleep. Such a sleep ends by a
	// timer, which wakes the scheduler's monitor.
	relaxedInterval = 100 * time.Millisecond
	// unarmedLimit is the maximum duration of a Wait that was not preceded by Due.
	unarmedLimit = time.Millisecond
)

// completionQueue implements rdmatransport.CompletionQueue over two ibv_cqs.
type completionQueue struct {
	dev     *device
	channel *C.struct_ibv_comp_channel
	sent    hardwareQueue
	arrived hardwareQueue
	closed  bool

	waiter waiter
	mail   mailbox.Mailbox
	out    outstanding

	now     time.Duration // of this turn, as device.clock
	busy    bool
	carries bool          // this queue polls the RDMA CM
	looked  time.Duration // when the RDMA CM was last checked
	present time.Duration // when the device was last seen in sysfs

	qps     map[uint32]*queuePair            // by serial
	shared  map[uint32]*sharedReceiveQueue   // by serial
	sharers map[rdmatransport.QPN]*queuePair // queue pairs with a shared receive queue
	serial  uint32                           // last serial number, of either kind
	backlog []queued                         // completions found but not yet returned by Poll
	chain   uint64                           // number of the last chain posted

	stack ccall.Stack // for calls of C functions, see calls.go
	// Buffers for one call each.
	wcs   []C.struct_nv_wc
	sends []C.struct_nv_send
	recvs []C.struct_nv_recv
	sges  []C.struct_nv_sge
	event C.struct_nv_event
	async C.struct_nv_async
	done  rdmatransport.Completion // the last completion translated
}

// A queued completion belongs to a queue pair that may be closed before it is returned.
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
	doing := fmt.Sprintf("creating a completion queue of %d entries", depth)
	code := C.nv_create_cq(d.lib, d.context, C.int(depth), C.int(vector), &c.channel, &c.arrived.cq, &fd, &got)
	if err := failure(code, doing); err != nil {
		return nil, err
	}
	c.arrived.capacity = int(got)
	if err := failure(C.nv_add_cq(d.lib, c.channel, C.int(depth), C.int(vector), &c.sent.cq, &got), doing); err != nil {
		C.nv_destroy_cq(d.lib, c.channel, c.arrived.cq)
		return nil, err
	}
	c.sent.capacity = int(got)
	if err := c.waiter.open(int(fd)); err != nil {
		c.destroyCQs()
		return nil, fmt.Errorf("verbs: epoll for a completion queue: %w", err)
	}
	if err := c.stack.Open(); err != nil {
		c.waiter.Close()
		c.destroyCQs()
		return nil, fmt.Errorf("verbs: %w", err)
	}
	return c, nil
}

// carry makes this queue the one that polls the RDMA CM.
func (c *completionQueue) carry() error {
	for i, fd := range [...]int{c.dev.cmFD, c.dev.asyncFD} {
		if err := c.waiter.Add(fd); err != nil {
			return fmt.Errorf("verbs: epoll for the RDMA CM: %w", err)
		}
		c.waiter.controls[i] = fd
	}
	c.carries = true
	return nil
}

// do runs f on the goroutine that drives the queue.
func (c *completionQueue) do(f func()) {
	c.mail.Put(f)
	c.waiter.Wake()
}

// reserve makes room for a queue pair's completions.
func (c *completionQueue) reserve(sends, recvs int) error {
	if err := c.sent.reserve(c.dev, sends); err != nil {
		return err
	}
	if err := c.arrived.reserve(c.dev, recvs); err != nil {
		c.sent.reserved -= sends
		return err
	}
	return nil
}

func (c *completionQueue) unreserve(sends, recvs int) {
	c.sent.reserved -= sends
	c.arrived.reserved -= recvs
}

// Poll implements rdmatransport.CompletionQueue.
func (c *completionQueue) Poll(cs []rdmatransport.Completion) int {
	c.now = c.dev.clock()
	if len(cs) == 0 {
		return 0
	}
	c.busy = c.mail.Run()
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
		if got < want || len(c.backlog) > 0 { // the backlog comes before what the device has
			break
		}
	}
	n += c.unload(cs[n:])
	c.busy = c.busy || n > 0
	return n
}

// take polls the device for up to n completions into wcs.
func (c *completionQueue) take(n int) int {
	if c.closed {
		return 0
	}
	got := c.sent.take(c, c.wcs[:n])
	more := 0
	if got >= 0 {
		more = c.arrived.take(c, c.wcs[got:n])
	}
	if got < 0 || more < 0 {
		c.dev.lose(ErrBroken)
		return max(0, got)
	}
	return got + more
}

// load moves the device's completions to the backlog.
func (c *completionQueue) load() {
	for got := pollBatch; got == pollBatch; {
		got = c.take(pollBatch)
		c.hold(c.wcs[:got])
	}
}

// loadSends is load for sends only. It can be called while other completions are being translated.
func (c *completionQueue) loadSends() {
	wcs := make([]C.struct_nv_wc, pollBatch)
	for got := pollBatch; got == pollBatch; {
		got = max(0, c.sent.take(c, wcs)) // the next Poll detects the error
		c.hold(wcs[:got])
	}
}

// hold keeps completions for the next Poll.
func (c *completionQueue) hold(wcs []C.struct_nv_wc) {
	for i := range wcs {
		q, done := c.translate(&wcs[i])
		if done != nil {
			c.backlog = append(c.backlog, queued{serialOf(q), *done})
		}
		if q != nil {
			q.flushWaiting()
		}
	}
}

// unload moves completions from the backlog to cs.
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

// drop removes a closed queue pair's completions from the backlog, except those of shared receives.
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

// newSerial returns an unused serial number for a queue pair or a shared receive queue; 0 means none.
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

// Flush implements rdmatransport.CompletionQueue. It does nothing: posts ring doorbells at once.
func (c *completionQueue) Flush() {}

// Wait implements rdmatransport.CompletionQueue.
func (c *completionQueue) Wait(d int64) {
	limit := time.Duration(d)
	if !c.arrived.armed.Load() && (limit < 0 || limit > unarmedLimit) {
		limit = unarmedLimit
	}
	c.waiter.wait(limit)
}

// Due implements rdmatransport.CompletionQueue. An owner calls it before it sleeps, so it arms the completion
// channel.
func (c *completionQueue) Due() int64 {
	if c.mail.Full() || len(c.backlog) > 0 || !c.arm() {
		return 0
	}
	due := int64(-1)
	if c.carries {
		due = int64(max(0, c.present+presenceInterval-c.dev.clock()))
	}
	if c.out.relaxed > 0 && !c.sent.armed.Load() && (due < 0 || due > int64(relaxedInterval)) {
		due = int64(relaxedInterval)
	}
	return due
}

// arm makes the next completion end a Wait; for sends only if some are not relaxed. It returns false if there are
// completions already: after arming, the queues must be polled once more (ibv_req_notify_cq(3)). An armed queue
// produces one notification, which may arrive later than its completion; the cost is a turn that finds nothing.
func (c *completionQueue) arm() bool {
	if c.closed {
		return true
	}
	if c.waiter.reported.Load() || c.arrived.noticed() || c.sent.noticed() {
		c.hear()
	}
	again := c.arrived.arm(c)
	if c.out.urgent > 0 {
		again = c.sent.arm(c) || again
	}
	if again {
		c.load()
	}
	return len(c.backlog) == 0
}

// hear reads the notifications that have arrived, or should have. A queue is armed again after its notification, or
// if that is imminent.
func (c *completionQueue) hear() {
	most := 1
	if c.arrived.noticed() && c.sent.noticed() {
		most = 2
	}
	for range most {
		switch from := c.takeNotice(); from {
		case nil:
		case c.sent.cq:
			c.sent.armed.Store(false)
		case c.arrived.cq:
			c.arrived.armed.Store(false)
		}
	}
	c.waiter.reported.Store(false)
	for _, h := range [...]*hardwareQueue{&c.arrived, &c.sent} {
		if h.fired {
			h.armed.Store(false)
		}
	}
}

// Wake implements rdmatransport.CompletionQueue.
func (c *completionQueue) Wake() { c.waiter.Wake() }

// Watch implements rdmatransport.CompletionQueue.
func (c *completionQueue) Watch(fd int) error { return c.waiter.Watch(fd) }

// Now implements rdmatransport.CompletionQueue.
func (c *completionQueue) Now() int64 { return int64(c.now) }

// Busy implements rdmatransport.CompletionQueue.
func (c *completionQueue) Busy() bool { return c.busy }

// ReceiveBudget implements rdmatransport.CompletionQueue. An RNIC has no limit.
func (c *completionQueue) ReceiveBudget() int { return 0 }

// abandon ends all queue pairs after the device was lost.
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
	c.closed = true
	C.nv_take_cq_events(c.dev.lib, c.channel) // unacknowledged notifications would block the destruction
	err := c.destroyCQs()
	c.waiter.Close()
	c.stack.Close()
	return err
}

func (c *completionQueue) destroyCQs() error {
	return errors.Join(
		c.dev.freed(C.nv_remove_cq(c.dev.lib, c.sent.cq), "destroying a completion queue"),
		c.dev.freed(C.nv_destroy_cq(c.dev.lib, c.channel, c.arrived.cq), "destroying a completion queue"))
}

var _ rdmatransport.CompletionQueue = (*completionQueue)(nil)
