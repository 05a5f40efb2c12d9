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

// ReadAt implements [io.ReaderAt]. Any offset and length will do.
func (n *Namespace) ReadAt(p []byte, off int64) (int, error) {
	return n.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext is ReadAt that ends early when ctx does: the commands are aborted,
// and once nothing can touch p any more it returns the error of ctx.
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

// WriteAt implements [io.WriterAt]. Offset and length must be multiples of the
// block size, since writing a part of a block means reading and writing all of
// it, which is not atomic: [ErrUnaligned]. After an error an unknown part of p
// has been written.
func (n *Namespace) WriteAt(p []byte, off int64) (int, error) {
	return n.WriteAtContext(context.Background(), p, off)
}

// WriteAtContext is WriteAt that ends early when ctx does, as ReadAtContext. After it has returned
// the error of ctx, nothing more is written. If the controller is lost meanwhile, something may be:
// then the error is the controller's, not that of ctx.
func (n *Namespace) WriteAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	return n.write(ctx, work{kind: operation.Write, buf: p, off: off, length: int64(len(p))})
}

// WriteDurable is WriteAtContext whose data is durable when it returns (force unit
// access), without a Flush of all that was written before.
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

// Flush makes all completed writes durable that the target's machine still has: of those through an
// earlier controller [capsule.WriteVerifier] tells whether it may have lost them. Package multipath
// looks at it.
func (n *Namespace) Flush() error { return n.FlushContext(context.Background()) }

// FlushContext is Flush that ends early when ctx does.
func (n *Namespace) FlushContext(ctx context.Context) error {
	return n.do(ctx, work{kind: operation.Flush, length: 1})
}

// WriteZeroes makes a range read as zeroes. With free the storage may be freed, where the controller can do that.
func (n *Namespace) WriteZeroes(off, length int64, free bool) error {
	return n.WriteZeroesContext(context.Background(), off, length, free)
}

// WriteZeroesContext is WriteZeroes that ends early when ctx does, as WriteAtContext.
func (n *Namespace) WriteZeroesContext(ctx context.Context, off, length int64, free bool) error {
	return n.doRange(ctx, capsule.ONCSWriteZeroes, work{kind: operation.Zeroes, off: off, length: length, free: free && n.frees()})
}

// frees reports whether Write Zeroes may ask the controller to deallocate (NVM command set 1.0, 4.1.5.1, DLFEAT): one that cannot
// may refuse it, as SPDK's target does.
func (n *Namespace) frees() bool { return n.Identify().DLFEAT&capsule.DLFEATWriteZeroes != 0 }

// Deallocate deallocates a range, whose content is not needed any more. Discard does
// so for many ranges at a time.
func (n *Namespace) Deallocate(off, length int64) error {
	return n.doRange(context.Background(), capsule.ONCSDatasetManagement, work{kind: operation.Trim, off: off, length: length})
}

// Compare compares a range with p, whose length is a multiple of the block size.
// Where they differ the error is [backend.ErrMiscompare].
func (n *Namespace) Compare(ctx context.Context, p []byte, off int64) error {
	return n.doRange(ctx, capsule.ONCSCompare, work{kind: operation.Compare, buf: p, off: off, length: int64(len(p))})
}

// Verify has the controller read a range without sending it, to see whether it can
// be read.
func (n *Namespace) Verify(ctx context.Context, off, length int64) error {
	return n.doRange(ctx, capsule.ONCSVerify, work{kind: operation.Verify, off: off, length: length})
}

// work is what a blocking operation does. The range, in bytes, of a read need not
// be whole blocks.
type work struct {
	kind        operation.Kind
	buf         []byte
	vector      *operation.Vector // instead of buf
	off, length int64
	fua         bool
	free        bool // Zeroes: the storage may be freed
}

// do carries out an operation and waits for it. When ctx ends before, its commands
// are aborted, and do returns when they have their answers. Idle operations are kept
// for each processor, so that a goroutine which waits for one after the other stays
// with its I/O queue.
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

// doRange carries out an operation on a range, which only some controllers have.
func (n *Namespace) doRange(ctx context.Context, needs uint16, w work) error {
	if err := n.controller.supports(needs); err != nil {
		return err
	}
	if err := n.checkRange(w.off, w.length); err != nil {
		return err
	}
	return n.do(ctx, w)
}

// optional are the commands that a controller may lack, by their bit of ONCS.
var optional = map[uint16]capsule.IOOpcode{
	capsule.ONCSCompare: capsule.IOCompare, capsule.ONCSDatasetManagement: capsule.IODatasetManagement,
	capsule.ONCSWriteZeroes: capsule.IOWriteZeroes, capsule.ONCSVerify: capsule.IOVerify,
	capsule.ONCSCopy: capsule.IOCopy,
}

// supports judges by a bit of ONCS.
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
