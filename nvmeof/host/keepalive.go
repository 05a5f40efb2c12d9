package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// ErrKeepAlive is why a controller that no longer answers is given up.
var ErrKeepAlive = errors.New("keep alive was not answered in time")

// A keepAlive sends Keep Alive every half of KATO, so that one that is lost with
// its connection's retries is made up for (NVMe base 2.0, 3.9). It belongs to
// the admin queue's loop.
type keepAlive struct {
	request  fabric.Request
	timer    shard.Timer
	period   time.Duration
	sentAt   int64
	inFlight bool
}

func (c *Controller) startKeepAlive(context.Context) error {
	kato := c.options.keepAlive()
	if kato == 0 || c.identify.CNTRLTYPE == capsule.ControllerTypeDiscovery && c.identify.KAS == 0 {
		return nil
	}
	return c.keepAliveEvery(kato / 2)
}

// keepAliveEvery begins to send Keep Alive, or changes how often.
func (c *Controller) keepAliveEvery(period time.Duration) error {
	k, l := &c.keep, c.admin
	return l.shard.Call(func() {
		if l.queue.State() != fabric.StateLive {
			return
		}
		if k.timer.Func == nil {
			k.request = fabric.Request{
				Command: capsule.Command{Opcode: capsule.Opcode(capsule.AdminKeepAlive)},
				Done:    c.keptAlive,
			}
			k.timer.Func = c.keepAliveDue
			l.onEnd = func() { l.shard.StopTimer(&k.timer) }
		}
		k.period = period
		l.shard.SetTimer(&k.timer, period)
	})
}

// quiesce comes before a shutdown, after which a controller executes no admin command any
// more, while the host waits for its end: there are no more keep alives, and no Aborts of
// what ended with the I/O queues.
func (c *Controller) quiesce() error {
	l := c.admin
	return l.shard.Call(func() {
		l.shard.StopTimer(&c.keep.timer)
		c.aborts.over, c.aborts.waiting, c.aborts.later = true, nil, nil
	})
}

func (c *Controller) keepAliveDue() {
	k, l := &c.keep, c.admin
	if l.queue.State() != fabric.StateLive {
		return
	}
	l.shard.SetTimer(&k.timer, k.period)
	if k.inFlight {
		if l.shard.Now()-k.sentAt >= int64(2*k.period) {
			l.queue.Fail(fmt.Errorf("%w (KATO %v)", ErrKeepAlive, 2*k.period))
		}
		return
	}
	k.inFlight, k.sentAt = true, l.shard.Now()
	if err := l.queue.Submit(&k.request); err != nil {
		k.inFlight = false
	}
}

func (c *Controller) keptAlive(r *fabric.Request) {
	c.keep.inFlight = false
	if r.Err == nil && !r.Completion.Status.OK() {
		c.admin.queue.Fail(statusError(&r.Command, true, r.Completion))
	}
}
