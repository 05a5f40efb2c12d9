package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/nvmeof-go/nvmeof/backend"
)

// content is the data that a verified job writes. Each block of that size is a header followed by bytes that depend
// only on the seed and the place. So overlapping writes agree, old data is distinguishable from new, and a later job
// can check what it reads:
//
//	0   4  magic
//	4   4  size of the block
//	8   8  its offset in the store
//	16  8  seed
//	24  4  CRC-32C of the rest of the block
//	28  4  zero
//
// All numbers are little-endian.
type content struct {
	seed uint64
	size int
}

const (
	magic      = 0x4c594256
	headerSize = 32
	crcAt      = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fill fills the blocks at an offset.
func (c content) fill(b []byte, offset int64) {
	for ; len(b) > 0; b = b[c.size:] {
		c.block(b[:c.size], offset)
		offset += int64(c.size)
	}
}

func (c content) block(b []byte, offset int64) {
	binary.LittleEndian.PutUint32(b, magic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)))
	binary.LittleEndian.PutUint64(b[8:], uint64(offset))
	binary.LittleEndian.PutUint64(b[16:], c.seed)
	binary.LittleEndian.PutUint64(b[crcAt:], 0)
	noise(b[headerSize:], c.seed^uint64(offset))
	binary.LittleEndian.PutUint32(b[crcAt:], sum(b))
}

// sum returns the CRC of a block, whatever its header says.
func sum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:crcAt], castagnoli), castagnoli, b[crcAt+4:])
}

// check returns what is wrong with a block that a job wrote.
func check(b []byte, offset int64) error {
	wrong := func(format string, args ...any) error {
		return &VerifyError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
	}
	size, at := binary.LittleEndian.Uint32(b[4:]), int64(binary.LittleEndian.Uint64(b[8:]))
	switch {
	case binary.LittleEndian.Uint32(b) != magic:
		return wrong("it has no header: it was not written by a job with verify")
	case int(size) != len(b):
		return wrong("it was written in blocks of %d bytes, not %d", size, len(b))
	case at != offset:
		return wrong("it is the block of offset %d", at)
	case binary.LittleEndian.Uint32(b[crcAt:]) != sum(b):
		return wrong("its CRC-32C is %#08x, %#08x was written", sum(b), binary.LittleEndian.Uint32(b[crcAt:]))
	}
	return nil
}

// noise fills b with pseudorandom bytes from a seed (SplitMix64).
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
	Offset    int64 // of the first wrong byte, or of the block if Reason says what is wrong with it
	Got, Want byte
	Reason    string
}

func (e *VerifyError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("wrong data: block at offset %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("wrong data: byte at offset %d is %#02x, %#02x was written", e.Offset, e.Got, e.Want)
}

// bitmap has one bit for each block of a range.
type bitmap struct{ words []uint64 }

func newBitmap(n int64) *bitmap { return &bitmap{make([]uint64, (n+63)/64)} }

func (m *bitmap) set(i int64)      { m.words[i/64] |= 1 << (i % 64) }
func (m *bitmap) has(i int64) bool { return m.words[i/64]>>(i%64)&1 != 0 }

// done notes what was written, or checks what was read from an earlier job.
func (r *runner) done(s *slot) {
	size := int64(r.content.size)
	switch {
	case s.direction == ToWrite:
		for at := s.offset; at < s.offset+s.length; at += size {
			r.written.set((at - r.job.Offset) / size)
		}
	case s.direction == ToRead && r.written == nil:
		for at := int64(0); at < s.length && r.err == nil; at += size {
			r.err = check(s.buf[at:at+size], s.offset+at)
			r.verified++
		}
	}
}

// verify reads every block that was written and compares it.
func (r *runner) verify(ctx context.Context) error {
	want, size := make([]byte, r.content.size), int64(r.content.size)
	block, blocks := int64(0), r.job.blocks(ToWrite)
	prepare := func(tag int) {
		for ; block < blocks; block++ {
			if r.written.has(block) {
				s := &r.slots[tag]
				s.direction, s.offset, s.length = ToRead, r.job.Offset+block*size, size
				r.add(tag)
				block++
				return
			}
		}
	}
	for tag := range r.job.Depth {
		prepare(tag)
	}
	r.counting = false
	r.submit()
	for idle := 0; r.flying > 0 && !r.left; idle++ {
		n := r.poll(idle)
		if n > 0 {
			idle = 0
		}
		if now := r.now(); now >= r.report {
			r.report = now + reportEvery
			r.look(ctx, now)
		}
		for _, res := range r.results[:n] {
			r.flying--
			r.compare(res, want)
			if r.err == nil {
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
	s := &r.slots[tag]
	got := s.buf[:len(want)]
	r.content.block(want, s.offset)
	r.verified++
	if bytes.Equal(got, want) {
		return
	}
	for i := range want {
		if got[i] != want[i] {
			r.err = &VerifyError{Offset: s.offset + int64(i), Got: got[i], Want: want[i]}
			return
		}
	}
}
