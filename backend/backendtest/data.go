package backendtest

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
)

func testReadYourWrites(t *testing.T, s backend.Store) {
	c := newClient(t, s, 4)
	defer c.close()
	block, size := c.block(), c.info.Size
	places := []struct{ offset, length int64 }{
		{0, block},
		{block, block},
		{3 * block, 8 * block},
		{1 << 20, 128 << 10},
		{1<<20 + block, 1 << 20},
		{size - block, block},
		{size - 64*block, 64 * block},
	}
	for i, p := range places {
		for _, fua := range []bool{false, true} {
			b := c.buffer(p.length)
			fill(b, uint64(i))
			r := write(p.offset, b)
			r.FUA = fua
			c.ok(r)
			if !bytes.Equal(c.readBack(p.offset, p.length), b) {
				t.Errorf("%d bytes at %d, FUA %v: read something else than written", p.length, p.offset, fua)
			}
		}
	}
	c.ok(read(size, nil)) // nothing, nowhere: allowed
}

// Random operations, one at a time, against a copy in memory.
func testRandomOperations(t *testing.T, s backend.Store) {
	c := newClient(t, s, 1)
	defer c.close()
	rnd := rand.New(rand.NewPCG(1, 2))
	const size = 1 << 20
	model := c.buffer(size)
	fill(model, 7)
	c.ok(write(0, model))
	for i := range 200 {
		blocks := size / c.block()
		n := 1 + rnd.Int64N(32)
		offset := rnd.Int64N(blocks-n) * c.block()
		length := n * c.block()
		r := backend.Request{Op: backend.Op(rnd.IntN(4)), Offset: offset, Length: length, FUA: rnd.IntN(4) == 0}
		switch r.Op {
		case backend.OpRead:
			r.Buf = c.buffer(length)
		case backend.OpWrite:
			r.Buf = c.buffer(length)
			fill(r.Buf, uint64(i))
			copy(model[offset:], r.Buf)
		case backend.OpWriteZeroes:
			r.Deallocate = rnd.IntN(2) == 0
			clear(model[offset : offset+length])
		}
		c.ok(r)
		if r.Op == backend.OpRead && !bytes.Equal(r.Buf, model[offset:offset+length]) {
			t.Fatalf("operation %d: %d bytes at %d differ from what was written", i, length, offset)
		}
	}
	if !bytes.Equal(c.readBack(0, size), model) {
		t.Error("the store differs from what was written")
	}
}

// Many disjoint requests in flight together.
func testBatch(t *testing.T, s backend.Store) {
	const depth = 32
	c := newClient(t, s, depth)
	defer c.close()
	step := 8 * c.block()
	var rs []backend.Request
	for i := range int64(depth) {
		b := c.buffer((1 + i%8) * c.block())
		fill(b, uint64(i))
		r := write(i*step, b)
		r.Tag = uint64(i) + 100
		rs = append(rs, r)
	}
	got := map[uint64]bool{}
	submit := func() {
		if n := c.q.Submit(rs); n != depth {
			t.Fatalf("Submit took %d of %d", n, depth)
		}
		clear(got)
		for len(got) < depth {
			for _, r := range c.results() {
				if r.Err != nil || got[r.Tag] || r.Tag < 100 || r.Tag >= 100+depth {
					t.Fatalf("tag %d, seen %v: %v", r.Tag, got[r.Tag], r.Err)
				}
				got[r.Tag] = true
			}
		}
	}
	submit()
	written := make([][]byte, depth)
	for i := range rs {
		written[i] = rs[i].Buf
		rs[i].Op, rs[i].Buf = backend.OpRead, c.buffer(rs[i].Length)
	}
	submit()
	for i := range rs {
		if !bytes.Equal(rs[i].Buf, written[i]) {
			t.Errorf("request %d: read something else than written", i)
		}
	}
}

// BAD-INPUT: first block past the end, ranges that wrap.
func testOutOfRange(t *testing.T, s backend.Store) {
	c := newClient(t, s, 4)
	defer c.close()
	block, size := c.block(), c.info.Size
	last := c.buffer(block)
	fill(last, 3)
	c.ok(write(size-block, last))
	places := []struct{ offset, length int64 }{
		{size, block},
		{size - block, 2 * block},
		{size + block, block},
		{math.MaxInt64 - block + 1, block},
		{math.MaxInt64 &^ (block - 1), 2 * block},
		{-block, block},
		{-block, 2 * block},
		{math.MinInt64, block},
	}
	for _, p := range places {
		b := c.buffer(p.length)
		c.wantErr(read(p.offset, b), backend.ErrOutOfRange)
		c.wantErr(write(p.offset, b), backend.ErrOutOfRange)
		for _, op := range []backend.Op{backend.OpWriteZeroes, backend.OpDeallocate} {
			c.wantErr(backend.Request{Op: op, Offset: p.offset, Length: p.length}, backend.ErrOutOfRange)
		}
	}
	for _, length := range []int64{size + block, math.MaxInt64 &^ (block - 1), -block, math.MinInt64} {
		for _, offset := range []int64{0, block, size - block} {
			c.wantErr(backend.Request{Op: backend.OpWriteZeroes, Offset: offset, Length: length}, backend.ErrOutOfRange)
		}
	}
	if !bytes.Equal(c.readBack(size-block, block), last) {
		t.Error("a request beyond the end changed the last block")
	}
}

func testMalformed(t *testing.T, s backend.Store) {
	c := newClient(t, s, 4)
	defer c.close()
	block := c.block()
	b := c.buffer(2 * block)
	tests := []backend.Request{
		read(1, b[:block]),
		read(block/2, b[:block]),
		read(0, b[:block-1]),
		write(0, b[:block/2]),
		{Op: backend.OpRead, Length: 2 * block, Buf: b[:block]},
		{Op: backend.OpWrite, Length: block, Buf: b},
		{Op: backend.OpWrite, Length: block},
		{Op: backend.OpWriteZeroes, Offset: 1, Length: block},
		{Op: backend.OpDeallocate, Length: block / 2},
		{Op: backend.OpCompareAndWrite, Length: block, Buf: b[:block]},
		{Op: backend.OpCompareAndWrite, Length: -block, Buf: b},
		{Op: backend.OpCopy + 1, Length: block},
		{Op: 255},
	}
	if c.info.Alignment > 1 {
		tests = append(tests, read(0, b[1:1+block]))
	}
	for _, r := range tests {
		c.wantErr(r, backend.ErrInvalid)
	}
}
