package target

import (
	"fmt"
	"iter"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
)

func (c *Controller) setReady(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = on
}

// grantedQueues returns how many I/O queues the host may connect: the target's limit until the host sets Number of
// Queues.
func (c *Controller) grantedQueues() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted
}

// setGrantedQueues sets that number. It returns false if I/O queues exist.
func (c *Controller) setGrantedQueues(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queues) > 0 {
		return false
	}
	c.granted = n
	return true
}

// joinQueue adds an I/O queue. It may be called in any shard. If the host has a key, the queue is not entered
// under its identifier until the host has authenticated: otherwise a peer that knows the host's names could occupy
// the identifiers of its queues. See placeQueue.
func (c *Controller) joinQueue(q *queue, id capsule.QID) refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch old := c.queues[id]; {
	case c.dying:
		return temporary(badCNTLID, "its controller is being removed")
	case !c.ready:
		return malformed(badCNTLID, "its controller is not enabled") // not enabled yet, or reset
	case int(id) > c.granted:
		return malformed(badQID, "queue identifier is above the number of queues granted")
	case old != nil && c.keyed:
		// The new connection has not authenticated yet, but the old queue has. If its host is gone, the old queue
		// ends by the keep alive timeout.
		return temporary(badQID, "queue identifier is in use")
	case old != nil:
		// The host has ended the old queue, but the target has not noticed that yet.
		old.shard.Do(func() { old.disconnect(endReconnected) })
		return temporary(badQID, "queue identifier is in use")
	}
	if c.keyed {
		c.unproven[q] = struct{}{}
	} else {
		c.queues[id] = q
	}
	return refusal{}
}

// placeQueue enters an I/O queue under its identifier, after its host was admitted. It returns false if the
// identifier is in use by now, or not valid any more.
func placeQueue(c *Controller, q *queue) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waits := c.unproven[q]; !waits {
		return true
	}
	if !c.ready || c.queues[q.id] != nil || int(q.id) > c.granted {
		return false
	}
	delete(c.unproven, q)
	c.queues[q.id] = q
	return true
}

// queue returns the I/O queue with an identifier, or nil.
func (c *Controller) queue(id capsule.QID) *queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues[id]
}

// dropQueues disconnects all I/O queues.
func (c *Controller) dropQueues(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range ioQueues(c) {
		q.shard.Do(func() { q.disconnect(why) })
	}
}

// ioQueues yields the I/O queues, including those that have not authenticated yet. Called with mu held.
func ioQueues(c *Controller) iter.Seq[*queue] {
	return func(yield func(*queue) bool) {
		for _, q := range c.queues {
			if !yield(q) {
				return
			}
		}
		for q := range c.unproven {
			if !yield(q) {
				return
			}
		}
	}
}

// partQueues lets a host that disconnects its admin queue first, as SPDK does, disconnect the I/O queues too. If
// the target ended them meanwhile, the host would wait for responses that never come.
func (c *Controller) partQueues() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range ioQueues(c) {
		q.shard.Do(q.part)
	}
}

// end ends the association. Called in the controller's shard, possibly more than once.
func (c *Controller) end(why string) {
	c.mu.Lock()
	c.dying, c.ready = true, false
	c.mu.Unlock()
	c.stopTimers()
	c.dropQueues(why)
	c.admin.disconnect(why)
}

func (c *Controller) stopTimers() {
	c.shard.StopTimer(&c.timer)
	c.shard.StopTimer(&c.settle)
	c.shard.StopTimer(&c.presence.timer)
	c.shard.StopTimer(&c.lateness)
	c.shard.StopTimer(&c.shutdown.timer)
}

// leaveQueue removes a queue that has ended and has nothing in flight any more. The controller is removed with its
// last queue. Its identifier stays in use until then, so that none of its writes can follow those of a successor.
func (c *Controller) leaveQueue(q *queue) {
	c.mu.Lock()
	c.written.Join(&q.written)
	if q == c.admin {
		c.adminGone, c.dying, c.ready = true, true, false
	} else if c.queues[q.id] == q {
		delete(c.queues, q.id)
	}
	delete(c.unproven, q)
	last := c.adminGone && len(c.queues) == 0 && len(c.unproven) == 0
	c.mu.Unlock()
	if q == c.admin {
		c.stopTimers()
		if q.parted {
			c.partQueues()
		} else {
			c.dropQueues(endAdminQueue)
		}
		if !c.discovery() && c.props.Accepting() && !q.moved {
			c.subsystem.unsafe.Add(1)
		}
	}
	if last {
		c.subsystem.leave(c)
		c.log.Debug("controller removed")
		return
	}
	c.do(c.drained)
}

// queueCount returns how many I/O queues are connected.
func (c *Controller) queueCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queues)
}

// hide ends an association through a listener on which the subsystem is no longer exposed.
func (c *Controller) hide() {
	c.log.Info("controller disconnected: its subsystem is no longer exposed on the listener",
		zap.Stringer("address", c.listener.port.addr), zap.String("remedy", fmt.Sprintf("nvmeof subsystem set %s --listeners LIST, with the listener of this address in LIST", word(c.subsystem.nqn))))
	c.dismiss("subsystem is no longer exposed on the listener")
}

// dismiss ends the association by an administrator's decision, which has been logged already.
func (c *Controller) dismiss(why string) {
	c.do(func() {
		c.dismissed = true
		c.end(why)
	})
}
