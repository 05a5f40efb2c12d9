package backendtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

// compareAndWrite returns an OpCompareAndWrite with its expected and new parts filled in.
func (c *client) compareAndWrite(offset int64, expected, next []byte) backend.Request {
	n := int64(len(expected))
	r := backend.Request{Op: backend.OpCompareAndWrite, Offset: offset, Length: n, Buf: c.buffer(3 * c.info.Stride(n))}
	e, w, _ := r.Parts(&c.info)
	copy(e, expected)
	copy(w, next)
	return r
}

func testCompareAndWrite(t *testing.T, s backend.Store) {
	c := newClient(t, s, 4)
	defer c.close()
	block := c.block()
	if !c.info.Compare {
		c.wantErr(c.compareAndWrite(0, c.buffer(block), c.buffer(block)), backend.ErrInvalid)
		return
	}
	for i, length := range []int64{block, 3 * block, 64 << 10} {
		for _, fua := range []bool{false, true} {
			old, next := c.buffer(length), c.buffer(length)
			fill(old, uint64(i))
			fill(next, uint64(i)+100)
			offset := 5 * block
			c.ok(write(offset, old))
			last := bytes.Clone(old)
			last[length-1] ^= 1 // the last byte counts too
			r := c.compareAndWrite(offset, last, next)
			r.FUA = fua
			c.wantErr(r, backend.ErrMiscompare)
			if !bytes.Equal(c.readBack(offset, length), old) {
				t.Errorf("%d bytes, FUA %v: a miscompare changed the blocks", length, fua)
			}
			r = c.compareAndWrite(offset, old, next)
			r.FUA = fua
			c.ok(r)
			if !bytes.Equal(c.readBack(offset, length), next) {
				t.Errorf("%d bytes, FUA %v: read something else than written", length, fua)
			}
			c.wantErr(c.compareAndWrite(offset, old, next), backend.ErrMiscompare)
		}
	}
	b := c.buffer(block)
	c.wantErr(c.compareAndWrite(c.info.Size, b, b), backend.ErrOutOfRange)
	c.wantErr(c.compareAndWrite(-block, b, b), backend.ErrOutOfRange)
}

// Several queues increment counters in one block; no increment is lost.
func testCompareAndWriteIsAtomic(t *testing.T, s backend.Store) {
	const queues, rounds = 3, 40
	c := newClient(t, s, 1)
	defer c.close()
	block := c.block()
	if !c.info.Compare {
		return
	}
	c.ok(write(block, c.buffer(block)))
	var wg sync.WaitGroup
	for range queues {
		wg.Go(func() {
			c := newClient(t, s, 1)
			defer c.close()
			next := c.buffer(block)
			for n := 0; n < rounds; {
				seen := c.readBack(block, block)
				binary.LittleEndian.PutUint64(next, binary.LittleEndian.Uint64(seen)+1)
				switch err := c.do(c.compareAndWrite(block, seen, next)); {
				case err == nil:
					n++
				case !errors.Is(err, backend.ErrMiscompare):
					t.Errorf("compare and write: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := binary.LittleEndian.Uint64(c.readBack(block, block)); got != queues*rounds {
		t.Errorf("counted to %d, want %d", got, queues*rounds)
	}
}
