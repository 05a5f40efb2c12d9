package rdmatest

import (
	"errors"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

type completionQueue struct {
	device *device
	done   []rdmatransport.Completion
	busy   []*queuePair // queue pairs whose sends may be executed
	wake   chan struct{}
	timer  *time.Timer
	now    int64
	closed bool
}

func (c *completionQueue) Poll(cs []rdmatransport.Completion) int {
	c.now = int64(time.Since(c.device.start))
	n := c.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	c.run()
	taken := copy(cs, c.done)
	rest := copy(c.done, c.done[taken:])
	c.done = c.done[:rest]
	return taken
}

func (c *completionQueue) Flush() {
	n := c.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	c.run()
}

func (c *completionQueue) run() {
	for len(c.busy) > 0 {
		q := c.busy[0]
		copy(c.busy, c.busy[1:])
		c.busy = c.busy[:len(c.busy)-1]
		q.busy = false
		q.execute()
	}
}

// Due returns no time limit: every change of a queue wakes it.
func (c *completionQueue) Due() int64 {
	n := c.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(c.done) > 0 || len(c.busy) > 0 {
		return 0
	}
	return -1
}

func (c *completionQueue) Wait(d int64) {
	if d == 0 {
		return
	}
	if d < 0 {
		<-c.wake
		return
	}
	if c.timer == nil {
		c.timer = time.NewTimer(time.Duration(d))
	} else {
		c.timer.Reset(time.Duration(d))
	}
	select {
	case <-c.wake:
	case <-c.timer.C:
	}
	c.timer.Stop()
}

func (c *completionQueue) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *completionQueue) Busy() bool { return false }

func (c *completionQueue) Watch(int) error { return errors.New("loopback: no descriptors") }

func (c *completionQueue) Now() int64 { return c.now }

func (c *completionQueue) ReceiveBudget() int { return c.device.budget }

func (c *completionQueue) Close() error {
	n := c.device.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.device.queues--
	}
	return nil
}

// complete adds a completion and wakes the owner.
func (c *completionQueue) complete(x rdmatransport.Completion) {
	c.done = append(c.done, x)
	c.Wake()
}

// activate makes the next run execute the queue pair's sends.
func (c *completionQueue) activate(q *queuePair) {
	if !q.busy {
		q.busy = true
		c.busy = append(c.busy, q)
	}
}
