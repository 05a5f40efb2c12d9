package backendtest

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

// RunCopy tests only OpCopy, on stores that support it. [Run] includes it.
func RunCopy(t *testing.T, open func(t *testing.T) backend.Store) {
	for name, f := range map[string]func(*testing.T, backend.Store){"Copy": testCopy, "CopyIsAtomic": testCopyIsAtomic} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			f(t, s)
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

func copyRequest(from, to, length int64) backend.Request {
	return backend.Request{Op: backend.OpCopy, From: from, Offset: to, Length: length}
}

// A copy copies the bytes, or fails as a whole with ErrUnsupported; it changes nothing elsewhere.
func testCopy(t *testing.T, s backend.Store) {
	c := newClient(t, s, 4)
	defer c.close()
	block, size := c.block(), c.info.Size
	if !c.info.Copy {
		c.wantErr(copyRequest(0, 1<<20, block), backend.ErrInvalid)
		return
	}
	for i, length := range []int64{block, 5 * block, 1<<20 + block} {
		for _, fua := range []bool{false, true} {
			source, around := c.buffer(length), c.buffer(length+2*block)
			fill(source, uint64(i))
			fill(around, uint64(i)+50)
			to := size/2&^(block-1) + block
			c.ok(write(3*block, source))
			c.ok(write(to-block, around))
			r := copyRequest(3*block, to, length)
			r.FUA = fua
			switch err := c.do(r); {
			case errors.Is(err, backend.ErrUnsupported):
				t.Skip("the file system does not copy")
			case err != nil:
				t.Fatal(err)
			}
			copy(around[block:], source)
			if !bytes.Equal(c.readBack(to-block, length+2*block), around) {
				t.Errorf("%d bytes, FUA %v: something else is there than was copied", length, fua)
			}
		}
	}
	if err := c.do(copyRequest(0, 2*block, 4*block)); err != nil && !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("ranges that overlap: %v", err)
	}
	for _, r := range []backend.Request{
		copyRequest(size, 0, block), copyRequest(0, size, block), copyRequest(-block, 0, block), copyRequest(0, size-block, 2*block),
	} {
		c.wantErr(r, backend.ErrOutOfRange)
	}
	c.wantErr(copyRequest(1, 0, block), backend.ErrInvalid)
}

// Blocks are copied while other queues write source and destination: no block is a mix.
func testCopyIsAtomic(t *testing.T, s backend.Store) {
	c := newClient(t, s, 1)
	defer c.close()
	if !c.info.Copy {
		return
	}
	const span, rounds = 8, 20
	prepareBlocks(t, s, span)
	block, far := c.block(), c.info.Size/2&^(c.block()-1)
	zero := c.buffer(span * block)
	c.ok(write(far, zero))
	var wg sync.WaitGroup
	for n := range 2 {
		wg.Go(func() {
			c := newClient(t, s, 1)
			defer c.close()
			b := c.buffer(span * block)
			for i := range uint64(rounds) {
				stamp(b, i<<8|uint64(n))
				c.ok(write(int64(n)*far, b))
			}
		})
	}
	for range rounds {
		if err := c.do(copyRequest(0, far, span*block)); err != nil && !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("copy: %v", err)
			break
		}
		if torn(c.readBack(far, span*block), block) {
			t.Error("copied a block that is a mix")
			break
		}
	}
	wg.Wait()
}
