package host

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
)

// A Controller is an association with a controller of a subsystem. Its methods
// may be called from any goroutine.
type Controller struct {
	host       *Host
	options    Options
	queues     *association.Association
	domain     *association.Domain
	pools      []*association.Pool // by shard, nil where nothing needs one
	ioQueues   []*operation.IOQueue
	turn       atomic.Uint32 // of ioQueues
	namespaces operation.Namespaces
	keep       keepAlive
	events     events

	operations sync.Pool // of *operation.Blocking, idle

	proving      sync.Mutex    // held while Authenticate runs
	transactions atomic.Uint32 // exchanges begun; the low 16 bits are the next T_ID

	// Learnt from the controller, constant after Connect.
	cntlid   capsule.ControllerID
	cap      capsule.CAP
	version  capsule.Version
	identify capsule.IdentifyController
	limits   limits

	gone    chan struct{} // closed when Disconnect has ended
	goneErr error         // before gone is closed, as is shut
	shut    bool          // the controller has said that it is shut down
}

// Done is closed when the controller is lost or disconnected.
func (c *Controller) Done() <-chan struct{} { return c.queues.Done() }

// Err is why the controller is lost, [ErrClosed] after Disconnect, nil before.
func (c *Controller) Err() error { return c.queues.Err() }

// ID is the controller's identifier.
func (c *Controller) ID() capsule.ControllerID { return c.cntlid }

// CAP is the property of capabilities, Version the property VS.
func (c *Controller) CAP() capsule.CAP { return c.cap }

// Version is the version of the specification that the controller follows.
func (c *Controller) Version() capsule.Version { return c.version }

// Identify is the controller's Identify data.
func (c *Controller) Identify() *capsule.IdentifyController { return &c.identify }

// IOQueues is how many I/O queues there are, and QueueDepth their entries.
func (c *Controller) IOQueues() int { return len(c.ioQueues) }

// QueueDepth is the size of each I/O queue.
func (c *Controller) QueueDepth() int { return c.limits.queueDepth(c.options.queueSize()) }

// MaxTransfer is how many bytes one command moves; longer requests are split.
func (c *Controller) MaxTransfer() int { return c.limits.Write }

// Admin sends a command on the admin queue; data, if any, goes the way that the
// opcode says. The completion is valid with a [*StatusError] too. When ctx ends
// first the command is aborted, but not waited for, and its data is dropped. When the
// controller is lost, be it by another queue, the command is not waited for either.
func (c *Controller) Admin(ctx context.Context, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	if err := c.mayExecute(c.queues.Admin(), &cmd, data); err != nil {
		return capsule.Completion{}, err
	}
	return execute(ctx, c.Done(), c.queues.Admin(), cmd, data)
}

// IdentifyData sends an Identify command and returns its 4096 bytes.
func (c *Controller) IdentifyData(ctx context.Context, id capsule.NSID, f capsule.Identify) ([]byte, error) {
	cmd := capsule.Command{Opcode: capsule.Opcode(capsule.AdminIdentify), NSID: id}
	f.Put(&cmd)
	b := make([]byte, capsule.IdentifySize)
	if _, err := c.Admin(ctx, cmd, b); err != nil {
		return nil, err
	}
	return b, nil
}

// nextIOQueue takes the I/O queues in turn.
func (c *Controller) nextIOQueue() *operation.IOQueue {
	return c.ioQueues[int(c.turn.Add(1)-1)%len(c.ioQueues)]
}

// execute sends a command that its caller may stop to wait for; lost may be nil.
func execute(ctx context.Context, lost <-chan struct{}, q *association.Queue, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	done, err := q.Execute(ctx, lost, cmd, data)
	if err != nil {
		return capsule.Completion{}, err
	}
	return done, statusError(&cmd, q.ID == 0, done)
}

// unsent is the error of what is not sent since the controller is lost; nil: it is not.
func (c *Controller) unsent() error {
	if err := c.Err(); err != nil {
		return &UnsentError{err}
	}
	return nil
}

// mayExecute judges what every command must keep to.
func (c *Controller) mayExecute(q *association.Queue, cmd *capsule.Command, data []byte) error {
	if err := c.unsent(); err != nil {
		return err
	}
	if len(data) > c.limits.Write {
		return fmt.Errorf("%s with %d bytes of data: the controller takes %d", commandName(cmd, q.ID == 0), len(data), c.limits.Write)
	}
	return nil
}
