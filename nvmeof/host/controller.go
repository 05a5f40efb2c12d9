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

// A Controller is an association with a controller of a subsystem. Its methods may be called from any goroutine.
type Controller struct {
	host       *Host
	options    Options
	queues     *association.Association
	domain     *association.Domain
	pools      []*association.Pool // by shard, nil if no queue of the shard needs one
	ioQueues   []*operation.IOQueue
	turn       atomic.Uint32 // index of the I/O queue that nextIOQueue takes next
	namespaces operation.Namespaces
	keep       keepAlive
	events     events

	operations sync.Pool // pool of idle *operation.Blocking

	authenticating sync.Mutex    // held while Authenticate runs
	transactions   atomic.Uint32 // authentication transactions begun; the low 16 bits are the next T_ID

	// Read from the controller, constant after Connect.
	cntlid   capsule.ControllerID
	cap      capsule.CAP
	version  capsule.Version
	identify capsule.IdentifyController
	limits   limits

	gone    chan struct{} // closed when Disconnect has completed
	goneErr error         // set before gone is closed, as is shut
	shut    bool          // the controller has reported that its shutdown is complete
}

// Done returns a channel that is closed when the controller is lost or disconnected.
func (c *Controller) Done() <-chan struct{} { return c.queues.Done() }

// Err returns the reason why the controller was lost, [ErrClosed] after Disconnect, or nil while it is connected.
func (c *Controller) Err() error { return c.queues.Err() }

// ID returns the controller's identifier.
func (c *Controller) ID() capsule.ControllerID { return c.cntlid }

// CAP returns the controller's capabilities (property CAP).
func (c *Controller) CAP() capsule.CAP { return c.cap }

// Version returns the version of the specification that the controller follows (property VS).
func (c *Controller) Version() capsule.Version { return c.version }

// Identify returns the controller's Identify data.
func (c *Controller) Identify() *capsule.IdentifyController { return &c.identify }

// IOQueues returns the number of I/O queues.
func (c *Controller) IOQueues() int { return len(c.ioQueues) }

// QueueDepth returns the number of entries of each I/O queue.
func (c *Controller) QueueDepth() int { return c.limits.queueDepth(c.options.queueSize()) }

// MaxTransfer returns how many bytes one command transfers at most; longer requests are split.
func (c *Controller) MaxTransfer() int { return c.limits.Write }

// Admin sends a command on the admin queue and waits for its completion, which is valid with a [*StatusError] too. The
// opcode says in which direction data is transferred, if any. If ctx ends first, the command is aborted, Admin returns
// without waiting for it, and its data is dropped. It does not wait either once the controller is lost, be it because
// of another queue.
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

// nextIOQueue returns the I/O queues in turn.
func (c *Controller) nextIOQueue() *operation.IOQueue {
	return c.ioQueues[int(c.turn.Add(1)-1)%len(c.ioQueues)]
}

// execute sends a command and waits for it until ctx ends or lost is closed. lost may be nil.
func execute(ctx context.Context, lost <-chan struct{}, q *association.Queue, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	done, err := q.Execute(ctx, lost, cmd, data)
	if err != nil {
		return capsule.Completion{}, err
	}
	return done, statusError(&cmd, q.ID == 0, done)
}

// unsent returns the error of a request that is not sent because the controller is lost, or nil if it is not lost.
func (c *Controller) unsent() error {
	if err := c.Err(); err != nil {
		return &UnsentError{err}
	}
	return nil
}

// mayExecute checks what applies to every command.
func (c *Controller) mayExecute(q *association.Queue, cmd *capsule.Command, data []byte) error {
	if err := c.unsent(); err != nil {
		return err
	}
	if len(data) > c.limits.Write {
		return fmt.Errorf("%s with %d bytes of data: the controller accepts at most %d", commandName(cmd, q.ID == 0), len(data), c.limits.Write)
	}
	return nil
}
