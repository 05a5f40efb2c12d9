package host

import (
	"context"
	"math"

	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/operation"
)

// ReadVectored reads a range into several buffers, one after the other, as readv does. Offset and the sum of the
// lengths must be multiples of the block size. Buffers of whole blocks in memory of the controller's Buffers are filled
// without a copy, several with one command if the controller supports that (MSDBD). If ctx ends first, it returns
// early, as ReadAtContext does.
func (n *Namespace) ReadVectored(ctx context.Context, bufs [][]byte, off int64) (int, error) {
	return n.vectored(ctx, operation.Read, bufs, off)
}

// WriteVectored writes several buffers, one after the other, to a range, as writev does. Otherwise it is like
// ReadVectored.
func (n *Namespace) WriteVectored(ctx context.Context, bufs [][]byte, off int64) (int, error) {
	return n.vectored(ctx, operation.Write, bufs, off)
}

func (n *Namespace) vectored(ctx context.Context, kind operation.Kind, bufs [][]byte, off int64) (int, error) {
	length := int64(0)
	for _, b := range bufs {
		if int64(len(b)) > math.MaxInt64-length {
			return 0, ErrOutOfRange
		}
		length += int64(len(b))
	}
	return n.write(ctx, work{kind: kind, vector: operation.NewVector(&n.io, bufs), off: off, length: length})
}
