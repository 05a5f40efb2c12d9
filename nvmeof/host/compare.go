package host

import (
	"context"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// CompareAndWrite writes next to a range if the range contains expected, as one atomic operation. Both have the same
// length, at most [Namespace.MaxCompareAndWrite] bytes. If the range differs, nothing is written and the error is
// [backend.ErrMiscompare]. A [*StatusError] says which half failed: Compare or Write.
//
// The two commands are one fused operation (NVMe base 2.0, 3.4.2).
func (n *Namespace) CompareAndWrite(ctx context.Context, off int64, expected, next []byte) error {
	if err := n.mayCompareAndWrite(off, expected, next); err != nil {
		return err
	}
	if len(next) == 0 {
		return n.controller.unsent()
	}
	fields := capsule.ReadWrite{SLBA: n.lba(off), Blocks: uint32(len(next) >> n.io.Shift)}
	compare := capsule.Command{
		Opcode: capsule.Opcode(capsule.IOCompare), NSID: n.io.ID, Flags: capsule.CommandFlags(capsule.FuseFirst),
	}
	write := capsule.Command{
		Opcode: capsule.Opcode(capsule.IOWrite), NSID: n.io.ID, Flags: capsule.CommandFlags(capsule.FuseSecond),
	}
	fields.Put(&compare)
	fields.Put(&write)
	q := n.controller.nextIOQueue()
	t, err := q.Execute(ctx, &n.io, &n.io.Bar, []capsule.Command{compare, write}, expected, next)
	if err != nil {
		return operationError(err)
	}
	return fusedError(t)
}

// fusedError returns the error of the command that failed by itself; the other one was aborted because of it.
func fusedError(t *association.Task) error {
	first, second := statusError(t.Command(0), false, t.Completion(0)), statusError(t.Command(1), false, t.Completion(1))
	if first == nil || second != nil && t.Completion(0).Status.Code() == capsule.StatusFailedFused && t.Completion(1).Status.Code() != capsule.StatusFailedFused {
		return second
	}
	return first
}

func (n *Namespace) mayCompareAndWrite(off int64, expected, next []byte) error {
	c := n.controller
	switch limit := n.MaxCompareAndWrite(); {
	case c.Err() != nil:
		return c.unsent()
	case c.identify.FUSES&capsule.FUSESCompareWrite == 0:
		return fmt.Errorf("%w: Compare and Write", ErrUnsupported)
	case c.QueueDepth() < minFusedDepth:
		return fmt.Errorf("queues of %d entries have no room for Compare and Write", c.QueueDepth())
	case len(expected) != len(next):
		return fmt.Errorf("%d bytes to compare and %d to write: the numbers must be equal", len(expected), len(next))
	case len(next) > limit:
		return fmt.Errorf("compare and write of %d bytes: the controller supports at most %d", len(next), limit)
	}
	return n.checkRange(off, int64(len(next)))
}

// minFusedDepth is the smallest queue that holds both commands: one entry always stays empty.
const minFusedDepth = 3

// MaxCompareAndWrite returns how many bytes the controller compares and writes atomically (NVMe base 2.0, ACWU; NVM
// command set 1.0, NACWU).
func (n *Namespace) MaxCompareAndWrite() int {
	blocks := int(n.controller.identify.ACWU)
	if n.Identify().NSFEAT&capsule.NSFEATAtomic != 0 && n.Identify().NACWU != 0 {
		blocks = int(n.Identify().NACWU)
	}
	limit := min(n.controller.limits.Write, shard.MaxBuffer/2) &^ (1<<n.io.Shift - 1)
	return max(1<<n.io.Shift, min((blocks+1)<<n.io.Shift, limit))
}
