package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Execute sends a command on one of the I/O queues and waits for its completion,
// which is valid with a [*StatusError] too. Data, if any, at most
// [Controller.MaxTransfer] bytes, goes the way that the opcode says. NSID 0 stands
// for the namespace; CID, flags and SGL are filled in. When ctx ends first the
// command is aborted, and Execute returns when it cannot take effect any more.
func (n *Namespace) Execute(ctx context.Context, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	if cmd.NSID == 0 {
		cmd.NSID = n.id
	}
	if cmd.Flags.Fuse() != capsule.FuseNone {
		return capsule.Completion{}, errors.New("half of a fused operation cannot be sent by itself")
	}
	l := n.controller.nextLane().link
	if err := n.controller.mayExecute(l, &cmd, data); err != nil {
		return capsule.Completion{}, err
	}
	t := newTask(l, []capsule.Command{cmd}, data)
	if cmd.NSID == n.id {
		t.ns = n
	}
	if err := t.await(ctx); err != nil {
		return capsule.Completion{}, err
	}
	copy(data, t.halves[0].data)
	c := t.halves[0].request.Completion
	return c, statusError(&cmd, false, c)
}

// second drops what a caller has no use for.
func second[T any](_ T, err error) error { return err }

// mayExecute judges what every command must keep to.
func (c *Controller) mayExecute(l *link, cmd *capsule.Command, data []byte) error {
	if err := c.Err(); err != nil {
		return err
	}
	if len(data) > c.limits.write {
		return fmt.Errorf("%s with %d bytes of data: the controller takes %d", commandName(cmd, l.qid == 0), len(data), c.limits.write)
	}
	return nil
}
