package host

import (
	"context"
	"errors"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
)

// Execute sends a command on one of the I/O queues and waits for its completion, which is valid with a [*StatusError]
// too. The opcode says in which direction data, if any, is transferred; at most [Controller.MaxTransfer] bytes.
// NSID 0 stands for the namespace; CID, flags and SGL are filled in. If ctx ends first, the command is aborted, and
// Execute returns when it can no longer take effect. If the controller is lost meanwhile, the error is the
// controller's, not that of ctx.
func (n *Namespace) Execute(ctx context.Context, cmd capsule.Command, data []byte) (capsule.Completion, error) {
	if cmd.NSID == 0 {
		cmd.NSID = n.io.ID
	}
	if cmd.Flags.Fuse() != capsule.FuseNone {
		return capsule.Completion{}, errors.New("half of a fused operation cannot be sent by itself")
	}
	q := n.controller.nextIOQueue()
	if err := n.controller.mayExecute(q.Queue, &cmd, data); err != nil {
		return capsule.Completion{}, err
	}
	var bar *association.Bar
	if cmd.NSID == n.io.ID {
		bar = &n.io.Bar
	}
	t, err := q.Execute(ctx, &n.io, bar, []capsule.Command{cmd}, data)
	if err != nil {
		return capsule.Completion{}, operationError(err)
	}
	copy(data, t.Data(0))
	c := t.Completion(0)
	return c, statusError(&cmd, false, c)
}

// second drops the first of two results.
func second[T any](_ T, err error) error { return err }
