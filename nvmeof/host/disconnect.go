package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
)

// shutdownTime bounds an orderly shutdown if the controller states no time (RTD3E).
const shutdownTime = 5 * time.Second

// Disconnect ends the association: first the I/O queues, then a normal shutdown (NVMe base 2.0, 3.6.2), then the admin
// queue. A controller that was lost because of an I/O queue is shut down too if its admin queue still answers; errors
// of that shutdown are not returned. Outstanding requests fail. Namespaces, queues and buffers of the controller are
// unusable afterwards.
func (c *Controller) Disconnect(ctx context.Context) error {
	return c.tearDown(func(lost bool) error {
		if !lost {
			return c.shutDown(ctx)
		}
		if c.answers(ctx) {
			_ = c.shutDown(ctx) // ShutDown reports whether it succeeded
		}
		return nil
	})
}

// ShutDown reports whether Disconnect has completed and the controller has reported that its shutdown is complete
// (CSTS.SHST). Then no command can take effect any more, not even one that was outstanding on a lost queue. Some
// controllers, such as Linux's nvmet, report it at once, while their storage is still working.
func (c *Controller) ShutDown() bool {
	select {
	case <-c.gone:
		return c.shut
	default:
		return false
	}
}

// tearDown ends all queues and frees everything, once. It calls shutDown before the admin queue ends, with whether the
// controller had been lost.
func (c *Controller) tearDown(shutDown func(lost bool) error) error {
	lost, first := c.queues.Close()
	if !first {
		<-c.gone
		return c.goneErr
	}
	var err error
	open := c.queues.Queues()
	for _, q := range slices.Backward(open) {
		if q.ID == 0 {
			err = shutDown(lost)
		}
		q.Disconnect()
		<-q.Ended()
	}
	c.goneErr = errors.Join(err, c.free(open))
	c.host.forget(c) // only now: free needs the loops, and Host.Close ends them once it has no controllers
	close(c.gone)
	return c.goneErr
}

func (c *Controller) free(open []*association.Queue) error {
	var errs []error
	for _, ioq := range c.ioQueues {
		errs = append(errs, ioq.Detach())
	}
	for _, q := range open {
		errs = append(errs, q.Free())
	}
	for _, p := range c.pools {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(append(errs, c.domain.Close())...)
}

// quiesce prepares for a shutdown: it stops the keep alive timer and the Aborts of commands that ended with the I/O
// queues. After a shutdown has begun, a controller executes no admin commands while the host waits for its end.
func (c *Controller) quiesce() error {
	admin := c.queues.Admin()
	return admin.Shard.Call(func() {
		admin.Shard.StopTimer(&c.keep.timer)
		c.queues.Aborts.Stop()
	})
}

// shutDown requests a normal shutdown and waits until it is complete.
func (c *Controller) shutDown(ctx context.Context) error {
	limit := shutdownTime
	if t := time.Duration(c.identify.RTD3E) * time.Microsecond; t > limit {
		limit = min(t, time.Minute)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := c.quiesce()
	var v uint64
	if err == nil {
		v, err = c.Properties().Get(ctx, capsule.PropertyCC)
	}
	if err == nil {
		cc := capsule.CC(v).WithShutdown(capsule.ShutdownNormal)
		err = c.Properties().Set(ctx, capsule.PropertyCC, uint64(cc))
	}
	if err == nil {
		err = c.waitStatus(ctx, limit, func(s capsule.CSTS) bool { return s.Shutdown() == capsule.ShutdownComplete })
	}
	if err != nil {
		return fmt.Errorf("shutting down controller %d: %w", c.cntlid, err)
	}
	c.shut = true
	return nil
}

// answerTime is how long a controller with a lost I/O queue may take to answer. It is short because callers want to
// reconnect soon.
const answerTime = time.Second

// answers reports whether the admin queue of a lost controller still works.
func (c *Controller) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := c.Properties().Get(ctx, capsule.PropertyCSTS)
	return err == nil
}
