package target

import (
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

const (
	// lateFor is how long Reads of a host take no leases after others had to wait for one of its leases: the data
	// is copied to a buffer at once.
	lateFor = 10 * time.Second
	// mostHeld is how long others wait for a lease that can only be ended by ending its queue.
	mostHeld = time.Second
	// maxLate limits how many hosts are remembered. Only allowed hosts are.
	maxLate = 1024
)

// Wanted implements [storage.Owner]: others wait for the lease of a Read whose response has not been acknowledged.
// The rest of the data, and retransmissions, are then sent from a copy. If there is no copy, because there is no
// buffer or the device reads the memory by itself, the queue ends.
func (r *request) Wanted(held time.Duration) {
	q := r.queue
	if r.stage != stageAnswered || q.failed {
		return
	}
	q.controller.tookLong()
	switch {
	case r.copyOut():
		q.counts.copied++
	case held > mostHeld && q.why == "":
		q.target.log.Trouble("queue ended: its host does not acknowledge the data of a Read, and other commands wait to write to the same place",
			zap.String("host", string(q.controller.hostNQN)), zap.String("subsystem", string(q.controller.subsystem.nqn)),
			zap.Uint16("qid", uint16(q.id)), zap.Stringer("peer", q.remote), zap.Duration("for", held))
		q.disconnect(endUnacknowledged)
	}
}

// copyOut copies the data to a buffer, from which it is sent, and ends the lease.
func (r *request) copyOut() bool {
	if !r.link.Movable() {
		return false
	}
	q := r.queue
	b, ok := q.share.Alloc(int(r.op.Length))
	if !ok {
		return false
	}
	data := b.Bytes()[:r.op.Length]
	copy(data, r.op.Lane.Memory[r.op.Offset:])
	if !r.link.MoveData(rdmatransport.SGE{Buf: data, LKey: q.worker.keyOf(b)}) {
		b.Release()
		return false
	}
	r.release()
	r.buffer = b
	return true
}

// tookLong notes that others had to wait for a lease of the controller's host. It may be called in any shard.
func (c *Controller) tookLong() {
	if c.late.Swap(true) {
		return
	}
	c.target.log.Troubles.Write(c.log.Info, "data that the host reads is copied for now: other commands had to wait until it acknowledged a Read",
		[]zap.Field{zap.Duration("for", lateFor)})
	c.target.late.add(lateHost{c.hostNQN, c.peer}, time.Now())
	c.do(c.startLateness)
}

func (c *Controller) startLateness() {
	c.mu.Lock()
	gone := c.dying
	c.mu.Unlock()
	if !gone {
		c.shard.SetTimer(&c.lateness, lateFor)
	}
}

// recallLateness restores the state of a host that reconnects.
func (c *Controller) recallLateness() {
	if c.target.late.has(lateHost{c.hostNQN, c.peer}, time.Now()) {
		c.late.Store(true)
		c.startLateness()
	}
}

// A lateHost is a host at an address: names alone are not verified.
type lateHost struct {
	nqn  nvmeof.NQN
	addr netip.Addr
}

// lateHosts has the hosts for whose leases others had to wait, and until when that matters.
type lateHosts struct {
	mu    sync.Mutex
	until map[lateHost]time.Time
}

func (l *lateHosts) add(h lateHost, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for h, until := range l.until {
		if !now.Before(until) {
			delete(l.until, h)
		}
	}
	if l.until == nil {
		l.until = make(map[lateHost]time.Time)
	}
	if len(l.until) < maxLate {
		l.until[h] = now.Add(lateFor)
	}
}

func (l *lateHosts) has(h lateHost, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.until[h])
}
