package target

import (
	"fmt"
	"iter"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// State that I/O queues on other shards share with the controller's own shard.

func (c *Controller) setReady(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = on
}

// grantedQueues is how many I/O queues the host may connect: the target's limit until the
// host sets Number of Queues.
func (c *Controller) grantedQueues() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted
}

// setGrantedQueues fails once I/O queues exist.
func (c *Controller) setGrantedQueues(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queues) > 0 {
		return false
	}
	c.granted = n
	return true
}

// joinQueue adds an I/O queue, from whatever shard it is on. That of a host with a key has no place until the
// host has proved who it is: whoever knows its names would keep it from connecting its own. See placeQueue.
func (c *Controller) joinQueue(q *queue, id capsule.QID) refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch old := c.queues[id]; {
	case c.dying:
		return passing(badCNTLID, "its controller is being removed")
	case !c.ready:
		return malformed(badCNTLID, "its controller is not enabled") // the host has not enabled it, or has reset it
	case int(id) > c.granted:
		return malformed(badQID, "queue identifier is above the number of queues granted")
	case old != nil && c.keyed:
		// Who connects has not authenticated yet, as the old queue has, which ends by the keep alive
		// timeout if its host is gone.
		return passing(badQID, "queue identifier is in use")
	case old != nil:
		// The host has ended the old queue, which we have not noticed yet.
		old.shard.Do(func() { old.disconnect("replaced by a new connection of the same queue") })
		return passing(badQID, "queue identifier is in use")
	}
	if c.keyed {
		c.unproven[q] = struct{}{}
	} else {
		c.queues[id] = q
	}
	return refusal{}
}

// placeQueue gives an I/O queue its place, whose host is admitted. It reports false where another one of that
// host has it by now, or there is none any more.
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

// queue returns the I/O queue with that identifier, or nil.
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

// ioQueues yields the I/O queues, with those whose host has not proved who it is. Called with mu held.
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

// partQueues lets a host that has disconnected its admin queue first, as SPDK's do,
// disconnect the I/O queues too: if we ended them meanwhile it would wait for responses
// that never come.
func (c *Controller) partQueues() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range ioQueues(c) {
		q.shard.Do(q.part)
	}
}

// end ends the association. Called in the controller's shard, more than once.
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

// leaveQueue removes a queue that has ended and has nothing in flight any more. The
// controller is removed with its last queue: its identifier stays in use until then, so
// that no write of it can follow those of a successor.
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
			c.dropQueues("admin queue is gone")
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

// queueCount is how many I/O queues are connected.
func (c *Controller) queueCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queues)
}

// hide ends an association through a listener that does not show the subsystem any more.
func (c *Controller) hide() {
	c.log.Info("controller disconnected: its subsystem is no longer exposed on the listener",
		zap.Stringer("address", c.listener.port.addr), zap.String("remedy", fmt.Sprintf("nvmeof subsystem set %s --listeners, with that of the address", word(c.subsystem.nqn))))
	c.dismiss("subsystem is no longer exposed on the listener")
}

// dismiss ends the association by an administrator's decision, which the log has already.
func (c *Controller) dismiss(why string) {
	c.do(func() {
		c.dismissed = true
		c.end(why)
	})
}
