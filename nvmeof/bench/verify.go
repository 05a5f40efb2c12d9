package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend"
)

// content is what a job writes: bytes that follow from the block and a seed of the
// job alone, so that overlapping writes agree and old data is told from new.
type content struct {
	seed    uint64
	written []uint64 // a bit for each block
}

func newContent(j Job, seed uint64) *content {
	return &content{seed, make([]uint64, (j.blocks()+63)/64)}
}

func (c *content) write(block int64, b []byte) {
	noise(b, c.seed^uint64(block))
	c.written[block/64] |= 1 << (block % 64)
}

func (c *content) has(block int64) bool { return c.written[block/64]>>(block%64)&1 != 0 }

// noise fills b with bytes that follow from a seed (SplitMix64).
func noise(b []byte, seed uint64) {
	for len(b) >= 8 {
		seed += 0x9e3779b97f4a7c15
		z := (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(b, z^z>>31)
		b = b[8:]
	}
}

// A VerifyError says that a store did not return what was written to it.
type VerifyError struct {
	Offset    int64 // of the first wrong byte
	Got, Want byte
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("wrong data: byte at offset %d is %#02x, %#02x was written", e.Offset, e.Got, e.Want)
}

// verified is how many blocks were read back.
func (r *runner) verified() uint64 {
	n := uint64(0)
	if r.content != nil {
		for block := range r.job.blocks() {
			if r.content.has(block) {
				n++
			}
		}
	}
	return n
}

// verify reads every block that was written and compares it.
func (r *runner) verify(ctx context.Context) error {
	want := make([]byte, r.job.BlockSize)
	next := int64(0)
	prepare := func(tag int) {
		for ; next < r.job.blocks(); next++ {
			if r.content.has(next) {
				r.add(backend.OpRead, tag, next)
				next++
				return
			}
		}
	}
	for tag := range r.job.Depth {
		prepare(tag)
	}
	r.submit()
	for r.flying > 0 {
		n := r.queue.Poll(r.results)
		r.yield.Turn(n > 0)
		for _, res := range r.results[:n] {
			r.flying--
			r.compare(res, want)
			if r.err == nil && ctx.Err() == nil {
				prepare(int(res.Tag))
			}
		}
		r.submit()
	}
	if r.err == nil {
		r.err = context.Cause(ctx)
	}
	return r.err
}

func (r *runner) compare(res backend.Result, want []byte) {
	if r.err != nil {
		return
	}
	tag := int(res.Tag)
	if res.Err != nil {
		r.err = fmt.Errorf("verify: %w", r.failure(tag, res.Err))
		return
	}
	got := r.buffers[tag]
	noise(want, r.content.seed^uint64(r.blocks[tag]))
	if bytes.Equal(got, want) {
		return
	}
	for i := range want {
		if got[i] != want[i] {
			r.err = &VerifyError{r.blocks[tag]*int64(r.job.BlockSize) + int64(i), got[i], want[i]}
			return
		}
	}
}
