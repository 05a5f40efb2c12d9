package rbd

import (
	"bytes"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/internal/stripe"
)

// zeroStep is the longest range of one call in bytes: each object of the range is a separate operation in the cluster.
const zeroStep = 32 << 20

// A slot is a request in progress.
type slot struct {
	req    backend.Request
	done   int64          // bytes of finished parts
	part   int64          // bytes of the current part, whose range it holds
	alone  bool           // it holds the range exclusively
	stage  stage          // of an OpCompareAndWrite in several steps
	epoch  uint64         // of the store when the request was taken
	pinner runtime.Pinner // of the buffer, until the call ends
}

type stage uint8

const (
	stageNone  stage = iota
	stageRead        // the present content is being read
	stageWrite       // the content was as expected
)

func (s *slot) begin(r *backend.Request, epoch uint64) {
	s.req, s.done, s.part, s.alone, s.stage, s.epoch = *r, 0, 0, false, stageNone, epoch
}

// pin pins a buffer for C and returns its address. For memory outside the Go heap it costs nothing.
func (s *slot) pin(b []byte) uint64 {
	p := unsafe.SliceData(b)
	s.pinner.Pin(p)
	return uint64(uintptr(unsafe.Pointer(p)))
}

// advance begins the next part of a request, makes it wait for its range, or ends it.
func (q *queue) advance(i uint32) {
	s := &q.slots[i]
	if s.req.Op == backend.OpFlush {
		q.calls = append(q.calls, call{id: i, kind: callFlush})
		return
	}
	left := s.req.Length - s.done
	if left == 0 {
		q.finish(i, nil)
		return
	}
	part := left
	if s.req.Op == backend.OpWriteZeroes || s.req.Op == backend.OpDeallocate {
		part = min(left, zeroStep)
	}
	if !q.hold(s, part) {
		q.waiting = append(q.waiting, i)
		return
	}
	q.issue(i)
}

// hold takes the range of a part. Reads take none: the cluster reads and writes an object, and so a block, in one step.
// Writes share their range, and an OpCompareAndWrite that the cluster cannot do in one step takes it exclusively.
func (q *queue) hold(s *slot, part int64) bool {
	if s.req.Op == backend.OpRead {
		s.part = part
		return true
	}
	s.alone = s.req.Op == backend.OpCompareAndWrite && q.store.inSteps(s.req.Offset, s.req.Length)
	switch q.store.blocks.Try(s.req.Offset+s.done, part, s.alone) {
	case stripe.Taken:
		s.part = part
		return true
	case stripe.Yielded:
		q.again = true
	}
	return false
}

func (q *queue) release(s *slot) {
	if s.part > 0 && s.req.Op != backend.OpRead {
		q.store.blocks.Release(s.req.Offset+s.done, s.part, s.alone)
	}
	s.part = 0
}

// issue prepares the call for the current part.
func (q *queue) issue(i uint32) {
	s := &q.slots[i]
	c := call{id: i, offset: uint64(s.req.Offset + s.done), length: uint64(s.part)}
	if s.req.FUA {
		c.flags = callFUA
	}
	switch s.req.Op {
	case backend.OpRead:
		c.kind, c.flags, c.buffer = callRead, 0, s.pin(s.req.Buf)
	case backend.OpWrite:
		c.kind, c.buffer = callWrite, s.pin(s.req.Buf)
	case backend.OpDeallocate:
		c.kind = callDiscard
	case backend.OpWriteZeroes:
		if c.kind = callZero; !s.req.Deallocate {
			c.flags |= callKeep
		}
	case backend.OpCompareAndWrite:
		q.compareCall(s, &c)
	}
	q.calls = append(q.calls, c)
}

// compareCall prepares the next call of an OpCompareAndWrite.
func (q *queue) compareCall(s *slot, c *call) {
	expected, next, room := s.req.Parts(q.store.info.Load())
	switch {
	case !s.alone:
		c.kind, c.buffer, c.expected = callCompare, s.pin(next), s.pin(expected)
	case s.stage == stageNone:
		s.stage = stageRead
		c.kind, c.flags, c.buffer = callRead, 0, s.pin(room)
	default:
		s.stage = stageWrite
		c.kind, c.buffer = callWrite, s.pin(next)
	}
}

// ended continues a request after one of its calls.
func (q *queue) ended(o outcome) {
	s := &q.slots[o.id]
	s.pinner.Unpin()
	reading := s.req.Op == backend.OpRead || s.stage == stageRead
	switch {
	case q.closing:
		q.release(s)
	case unix.Errno(-o.result) == unix.EINVAL && q.store.onlySectors(s):
		q.release(s)
		q.advance(o.id)
	case o.result < 0:
		q.finish(o.id, q.store.failed(s.req.Op, unix.Errno(-o.result), s.epoch))
	case reading && int64(o.result) != s.part: // the image was shrunk
		q.finish(o.id, backend.ErrOutOfRange)
	case s.stage == stageRead:
		q.compare(o.id)
	case s.req.Op == backend.OpFlush:
		q.finish(o.id, nil)
	default:
		part := s.part
		q.release(s)
		s.done += part
		q.advance(o.id)
	}
}

// compare continues with the write of an OpCompareAndWrite, whose range remains held.
func (q *queue) compare(i uint32) {
	expected, _, room := q.slots[i].req.Parts(q.store.info.Load())
	if !bytes.Equal(expected, room) {
		q.finish(i, backend.ErrMiscompare)
		return
	}
	q.issue(i)
}

// finish stores a request's result and frees its slot. Requests of a client that has lost its right to the image
// meanwhile fail.
func (q *queue) finish(i uint32, err error) {
	s := &q.slots[i]
	q.release(s)
	if err == nil && s.epoch != q.store.epoch.Load() {
		err = errFenced
	}
	q.results.Push(backend.Result{Tag: s.req.Tag, Err: err})
	s.req = backend.Request{}
	q.free = append(q.free, i)
}
