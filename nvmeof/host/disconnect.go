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

// shutdownTime bounds an orderly shutdown where the controller names no time.
const shutdownTime = 5 * time.Second

// Disconnect ends the association. If the controller still answers, that is first the I/O queues,
// then a normal shutdown (NVMe base 2.0, 3.6.2), then the admin queue. A lost controller is shut
// down too, if it was lost with an I/O queue and its admin queue still answers; errors of that are
// not returned. Requests that are outstanding fail. Namespaces, queues and buffers of the
// controller are unusable afterwards.
func (c *Controller) Disconnect(ctx context.Context) error {
	return c.tearDown(func(lost bool) error {
		if !lost {
			return c.shutDown(ctx)
		}
		if c.answers(ctx) {
			_ = c.shutDown(ctx) // ShutDown reports the error
		}
		return nil
	})
}

// ShutDown reports whether Disconnect has ended and the controller reported that its shutdown is
// complete (CSTS.SHST). Then no command can take effect any more, not even one that was outstanding
// on a lost queue. Some controllers report that at once, while their storage is still working:
// Linux's nvmet is one.
func (c *Controller) ShutDown() bool {
	select {
	case <-c.gone:
		return c.shut
	default:
		return false
	}
}

// tearDown ends all queues and frees everything, once. shutDown is called before the
// admin queue ends, with whether the controller was lost before.
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
	c.host.forget(c) // not before, since Host.Close ends the loops then, which free needs
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

// quiesce comes before a shutdown, after which a controller executes no admin command any
// more, while the host waits for its end: there are no more keep alives, and no Aborts of
// what ended with the I/O queues.
func (c *Controller) quiesce() error {
	admin := c.queues.Admin()
	return admin.Shard.Call(func() {
		admin.Shard.StopTimer(&c.keep.timer)
		c.queues.Aborts.Stop()
	})
}

// shutDown notifies the controller and waits until it has processed that.
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

// answerTime is how long a controller whose I/O queue was lost may take to show that it
// is there: who waits for its end wants to connect again.
const answerTime = time.Second

// answers reports whether a controller that was lost can still be spoken to.
func (c *Controller) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := c.Properties().Get(ctx, capsule.PropertyCSTS)
	return err == nil
}
