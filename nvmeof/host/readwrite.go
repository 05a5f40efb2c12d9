package host

import (
	"context"
	"fmt"
	"io"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
)

var (
	_ io.ReaderAt   = (*Namespace)(nil)
	_ io.WriterAt   = (*Namespace)(nil)
	_ backend.Store = (*Namespace)(nil)
)

// ReadAt implements [io.ReaderAt]. Offset and length need not be multiples of the block size.
func (n *Namespace) ReadAt(p []byte, off int64) (int, error) {
	return n.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext is ReadAt with a context. If ctx ends first, the commands are aborted, and once nothing can access p
// any more, ReadAtContext returns the error of ctx.
func (n *Namespace) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, ErrOutOfRange
	}
	if err := n.io.Bar.Err(); err != nil {
		return 0, err
	}
	size := n.Size()
	if off >= size {
		return 0, io.EOF
	}
	short := int64(len(p)) > size-off
	if short {
		p = p[:size-off]
	}
	if err := n.do(ctx, work{kind: operation.Read, buf: p, off: off, length: int64(len(p))}); err != nil {
		return 0, err
	}
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// WriteAt implements [io.WriterAt]. Offset and length must be multiples of the block size; otherwise the error is
// [ErrUnaligned], because writing a part of a block would be a read and a write, which is not atomic. After an error an
// unknown part of p has been written.
func (n *Namespace) WriteAt(p []byte, off int64) (int, error) {
	return n.WriteAtContext(context.Background(), p, off)
}

// WriteAtContext is WriteAt with a context, as ReadAtContext. After it has returned the error of ctx, nothing more is
// written. If the controller is lost meanwhile, more may be written, and the error is the controller's, not that of
// ctx.
func (n *Namespace) WriteAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return n.write(ctx, work{kind: operation.Write, buf: p, off: off, length: int64(len(p))})
}

// WriteDurable is WriteAtContext with force unit access: the data is durable when it returns, without a Flush of all
// earlier writes.
func (n *Namespace) WriteDurable(ctx context.Context, p []byte, off int64) (int, error) {
	return n.write(ctx, work{kind: operation.Write, buf: p, off: off, length: int64(len(p)), fua: true})
}

func (n *Namespace) write(ctx context.Context, w work) (int, error) {
	if err := n.checkRange(w.off, w.length); err != nil {
		return 0, err
	}
	if err := n.do(ctx, w); err != nil {
		return 0, err
	}
	return int(w.length), nil
}

// Flush makes completed writes durable that are still in the memory of the target's machine. For writes through an
// earlier controller, [capsule.WriteVerifier] tells whether they may have been lost; package multipath checks it.
func (n *Namespace) Flush() error { return n.FlushContext(context.Background()) }

// FlushContext is Flush with a context, as ReadAtContext.
func (n *Namespace) FlushContext(ctx context.Context) error {
	return n.do(ctx, work{kind: operation.Flush, length: 1})
}

// WriteZeroes makes a range read as zeroes. If free is set, the storage may be deallocated, if the controller supports
// that.
func (n *Namespace) WriteZeroes(off, length int64, free bool) error {
	return n.WriteZeroesContext(context.Background(), off, length, free)
}

// WriteZeroesContext is WriteZeroes with a context, as WriteAtContext.
func (n *Namespace) WriteZeroesContext(ctx context.Context, off, length int64, free bool) error {
	return n.doRange(ctx, capsule.ONCSWriteZeroes, work{kind: operation.Zeroes, off: off, length: length, free: free && n.frees()})
}

// frees reports whether Write Zeroes may ask the controller to deallocate (DLFEAT, NVM command set 1.0, 4.1.5.1). A
// controller that does not support it may fail the command, as SPDK's target does.
func (n *Namespace) frees() bool { return n.Identify().DLFEAT&capsule.DLFEATWriteZeroes != 0 }

// Deallocate deallocates a range whose content is no longer needed. Discard does so for several ranges.
func (n *Namespace) Deallocate(off, length int64) error {
	return n.doRange(context.Background(), capsule.ONCSDatasetManagement, work{kind: operation.Trim, off: off, length: length})
}

// Compare compares a range with p, whose length must be a multiple of the block size. If they differ, the error is
// [backend.ErrMiscompare].
func (n *Namespace) Compare(ctx context.Context, p []byte, off int64) error {
	return n.doRange(ctx, capsule.ONCSCompare, work{kind: operation.Compare, buf: p, off: off, length: int64(len(p))})
}

// Verify makes the controller read a range without transferring it, to check that it can be read.
func (n *Namespace) Verify(ctx context.Context, off, length int64) error {
	return n.doRange(ctx, capsule.ONCSVerify, work{kind: operation.Verify, off: off, length: length})
}

// work describes a blocking operation. The range is in bytes; that of a read need not cover whole blocks.
type work struct {
	kind        operation.Kind
	buf         []byte
	vector      *operation.Vector // instead of buf
	off, length int64
	fua         bool
	free        bool // Zeroes: the storage may be deallocated
}

// do executes an operation and waits for it. If ctx ends first, its commands are aborted, and do returns when they have
// completed. Idle operations are pooled per processor, so that a goroutine that executes one after the other stays with
// the same I/O queue.
func (n *Namespace) do(ctx context.Context, w work) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.length == 0 {
		return n.controller.unsent()
	}
	c := n.controller
	b := c.operations.Get().(*operation.Blocking)
	b.Namespace, b.Kind, b.FUA, b.Free = &n.io, w.kind, w.fua, w.free
	b.SetRange(w.buf, w.off, w.length)
	b.SetVector(w.vector)
	err, reusable := b.Await(ctx)
	if reusable {
		b.Namespace = nil
		b.Forget()
		c.operations.Put(b)
	}
	return operationError(err)
}

// doRange executes an operation on a range that is optional for controllers; needs is its bit of ONCS.
func (n *Namespace) doRange(ctx context.Context, needs uint16, w work) error {
	if err := n.controller.supports(needs); err != nil {
		return err
	}
	if err := n.checkRange(w.off, w.length); err != nil {
		return err
	}
	return n.do(ctx, w)
}

// optional has the optional commands, by their bit of ONCS.
var optional = map[uint16]capsule.IOOpcode{
	capsule.ONCSCompare: capsule.IOCompare, capsule.ONCSDatasetManagement: capsule.IODatasetManagement,
	capsule.ONCSWriteZeroes: capsule.IOWriteZeroes, capsule.ONCSVerify: capsule.IOVerify,
	capsule.ONCSCopy: capsule.IOCopy,
}

// supports returns an error if a bit of ONCS is not set.
func (c *Controller) supports(bit uint16) error {
	switch {
	case c.identify.ONCS&bit != 0:
		return nil
	case bit == capsule.ONCSReservations:
		return fmt.Errorf("%w: reservations", ErrUnsupported)
	}
	return fmt.Errorf("%w: %v", ErrUnsupported, optional[bit])
}

func (n *Namespace) checkRange(off, length int64) error {
	if err := n.io.Bar.Err(); err != nil {
		return err
	}
	if !backend.InRange(off, length, n.Size()) {
		return ErrOutOfRange
	}
	if (off|length)&(1<<n.io.Shift-1) != 0 {
		return ErrUnaligned
	}
	return nil
}
