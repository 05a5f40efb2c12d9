package nbd

import (
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd/internal/wire"
)

// A request of a client occupies one of the conn's slots from its header to the last byte of its reply.
type request struct {
	slot    uint16
	tag     uint64 // of the operation that the store has; 0: none
	head    wire.Request
	errno   wire.Errno
	partial bool // it changes parts of blocks
	silent  bool // sent by the server itself: no reply
	stage   stage

	// The whole blocks around the range.
	off, length int64

	first, pages int    // pages of the memory
	memory       []byte // for the blocks, followed by one block to read into if partial
	done         int64  // bytes written in stageZero

	reply     [wire.MaxReplyHead]byte
	replySize int
}

// A stage is the operation of the store that a request waits for.
type stage uint8

const (
	stageLast  stage = iota // the last operation
	stageFront              // reading the first block
	stageBack               // reading the last block
	stageZero               // writing zeroes, a piece at a time
	stageFlush              // an operation that will be followed by a flush
)

// zeroPiece is how many zeroes are written at a time if the store has no Write Zeroes.
const zeroPiece = 1 << 20

func (r *request) reset(head *wire.Request, errno wire.Errno) {
	r.head, r.errno = *head, errno
	r.partial, r.silent, r.stage = false, false, stageLast
	r.off, r.length, r.pages, r.memory, r.done = 0, 0, 0, nil, 0
}

// lay determines the blocks of a request, and how many pages it needs.
func (r *request) lay(block int, size int64) {
	b := int64(block)
	from, to := int64(r.head.Offset), int64(r.head.Offset)+int64(r.head.Length)
	aligned := (from|to)&(b-1) == 0
	bytes := int64(0)
	switch r.head.Command {
	case wire.CmdFlush, wire.CmdBlockStatus:
		return
	case wire.CmdTrim: // a hint: whole blocks only
		from, to = (from+b-1)&^(b-1), to&^(b-1)
		r.off, r.length = from, max(0, to-from)
		return
	case wire.CmdRead:
		bytes = 1
	case wire.CmdWrite:
		bytes, r.partial = 1, !aligned
	case wire.CmdWriteZeroes:
		if !aligned {
			bytes, r.partial = 1, true
			if r.head.Flags&wire.FlagFastZero != 0 {
				r.errno = wire.ENOTSUP
			} else if r.head.Length > maxRequest {
				r.errno = wire.EINVAL
			}
		}
	}
	r.off = from &^ (b - 1)
	r.length = min((to+b-1)&^(b-1), size) - r.off
	if r.errno != wire.OK || bytes == 0 {
		return
	}
	bytes = r.length
	if r.partial {
		bytes += b
	}
	r.pages = int((bytes + pageSize - 1) / pageSize)
}

// payload returns the memory of the request's data.
func (r *request) payload() []byte {
	at := int64(r.head.Offset) - r.off
	return r.memory[at:][:r.head.Length]
}

func (r *request) changes() bool {
	return r.head.Command != wire.CmdRead && r.head.Command != wire.CmdFlush && r.head.Command != wire.CmdBlockStatus
}

// begin begins a request that has been received completely.
func (c *conn) begin(r *request) {
	if r.changes() && !c.gate.enter(c, r) {
		return // the gate starts it later
	}
	c.start(r)
}

// start passes the first operation to the store, after the gate has admitted the request.
func (c *conn) start(r *request) {
	switch r.head.Command {
	case wire.CmdRead:
		c.ask(r, backend.Request{Op: backend.OpRead, Offset: r.off, Length: r.length, Buf: r.memory[:r.length]})
	case wire.CmdBlockStatus:
		c.finish(r)
	case wire.CmdFlush:
		c.ask(r, backend.Request{Op: backend.OpFlush})
	case wire.CmdTrim:
		if r.length == 0 {
			c.finish(r)
			return
		}
		if r.head.Flags&wire.FlagFUA != 0 {
			r.stage = stageFlush
		}
		c.ask(r, backend.Request{Op: backend.OpDeallocate, Offset: r.off, Length: r.length})
	case wire.CmdWriteZeroes:
		if r.partial {
			clear(r.payload())
			c.readFront(r)
			return
		}
		c.ask(r, backend.Request{
			Op: backend.OpWriteZeroes, Offset: r.off, Length: r.length,
			FUA: r.head.Flags&wire.FlagFUA != 0, Deallocate: r.head.Flags&wire.FlagNoHole == 0,
		})
	case wire.CmdWrite:
		if r.partial {
			c.readFront(r)
			return
		}
		c.write(r)
	}
}

func (c *conn) write(r *request) {
	r.stage = stageLast
	c.ask(r, backend.Request{
		Op: backend.OpWrite, FUA: r.head.Flags&wire.FlagFUA != 0,
		Offset: r.off, Length: r.length, Buf: r.memory[:r.length],
	})
}

// scratch returns the memory for one more block after those of the request.
func (c *conn) scratch(r *request) []byte { return r.memory[r.length:][:c.export.block] }

// readFront reads the first block, if the change begins within it.
func (c *conn) readFront(r *request) {
	if int64(r.head.Offset) == r.off {
		c.readBack(r)
		return
	}
	r.stage = stageFront
	c.ask(r, backend.Request{Op: backend.OpRead, Offset: r.off, Length: int64(c.export.block), Buf: c.scratch(r)})
}

// readBack reads the last block, if the change ends within it.
func (c *conn) readBack(r *request) {
	if end := int64(r.head.Offset) + int64(r.head.Length); end == r.off+r.length {
		c.write(r)
		return
	}
	r.stage = stageBack
	block := int64(c.export.block)
	c.ask(r, backend.Request{Op: backend.OpRead, Offset: r.off + r.length - block, Length: block, Buf: c.scratch(r)})
}

// ask adds an operation to the batch for the store, with a unique tag.
func (c *conn) ask(r *request, b backend.Request) {
	c.asked++
	r.tag = c.asked<<16 | uint64(r.slot)
	b.Tag = r.tag
	c.batch = append(c.batch, b)
}

// submit submits the batch.
func (c *conn) submit() {
	if len(c.batch) == 0 {
		return
	}
	n := c.queue.Submit(c.batch)
	c.submitted += n
	c.unpolled = c.unpolled || n > 0
	c.batch = c.batch[:copy(c.batch, c.batch[n:])] // nothing is left: the queue is as deep as there are slots
}

// poll handles completed operations, and returns how many there were.
func (c *conn) poll(rs []backend.Result) int {
	n := c.queue.Poll(rs)
	c.unpolled = false
	c.submitted -= n
	for _, res := range rs[:n] {
		c.step(c.ended(res.Tag), res.Err)
	}
	return n
}

// ended returns the request of a completed operation. A result with a wrong tag would end another request, whose memory
// the store still uses: the program panics instead.
func (c *conn) ended(tag uint64) *request {
	slot := uint16(tag)
	if int(slot) >= len(c.slots) || c.slots[slot].tag != tag || tag == 0 {
		panic(fmt.Sprintf("disk %s: the store (%T) breaks the contract of package backend, which backendtest.Run checks: "+
			"Poll returned a result with tag %#x, which no request in flight has", c.export.disk.Name, c.export.disk.Store, tag))
	}
	r := &c.slots[slot]
	r.tag = 0
	return r
}

// step continues a request after an operation has ended.
func (c *conn) step(r *request, err error) {
	if err != nil && c.zeroByWriting(r, err) {
		return
	}
	if err != nil {
		r.errno = errnoOf(r, err)
		c.loop.failed(c.export, err)
		if r.silent && c.published() {
			c.loop.unflushed = append(c.loop.unflushed, fmt.Errorf("disk %s was not flushed at the end: %w", c.export.disk.Name, err))
		}
		c.finish(r)
		return
	}
	if c.dead { // no reply is needed
		c.finish(r)
		return
	}
	switch r.stage {
	case stageFront:
		copy(r.memory, c.scratch(r)[:int64(r.head.Offset)-r.off])
		c.readBack(r)
	case stageBack:
		end := int64(r.head.Offset) + int64(r.head.Length) - r.off // in memory
		within := end & int64(c.export.block-1)
		copy(r.memory[end:r.length], c.scratch(r)[within:])
		c.write(r)
	case stageZero:
		c.zeroMore(r)
	case stageFlush:
		r.stage = stageLast
		c.ask(r, backend.Request{Op: backend.OpFlush})
	default:
		c.finish(r)
	}
}

// published reports whether the disk is still published: if it was removed or replaced, it cannot be flushed.
func (c *conn) published() bool {
	now := c.loop.server.find(c.export.disk.Name)
	return now != nil && now.disk.Store == c.export.disk.Store
}

// zeroByWriting writes zeroes if the store does not support Write Zeroes, unless the client has set FAST_ZERO.
func (c *conn) zeroByWriting(r *request, err error) bool {
	if r.head.Command != wire.CmdWriteZeroes || r.stage != stageLast || r.partial || !errors.Is(err, backend.ErrUnsupported) {
		return false
	}
	if r.head.Flags&wire.FlagFastZero != 0 {
		return false
	}
	r.stage = stageZero
	c.zeroMore(r)
	return true
}

func (c *conn) zeroMore(r *request) {
	n := min(zeroPiece, r.length-r.done)
	if n == 0 {
		c.finish(r)
		return
	}
	c.ask(r, backend.Request{
		Op: backend.OpWrite, FUA: r.head.Flags&wire.FlagFUA != 0,
		Offset: r.off + r.done, Length: n, Buf: c.loop.zero()[:n],
	})
	r.done += n
}

// errnoOf converts an error of the store to one of the protocol.
func errnoOf(r *request, err error) wire.Errno {
	switch {
	case errors.Is(err, backend.ErrOutOfRange):
		if r.head.Command == wire.CmdWrite || r.head.Command == wire.CmdWriteZeroes {
			return wire.ENOSPC
		}
		return wire.EINVAL
	case errors.Is(err, backend.ErrInvalid):
		return wire.EINVAL
	case errors.Is(err, backend.ErrReadOnly):
		return wire.EPERM
	case errors.Is(err, backend.ErrNoSpace):
		return wire.ENOSPC
	case errors.Is(err, backend.ErrUnsupported):
		return wire.ENOTSUP
	}
	return wire.EIO
}

// finish ends a request after its last operation.
func (c *conn) finish(r *request) {
	if r.changes() {
		c.gate.leave(c)
	}
	c.reply(r)
}

// reply queues the reply.
func (c *conn) reply(r *request) {
	if c.dead || r.silent {
		c.release(r)
		return
	}
	n := 0
	if r.errno == wire.OK && r.head.Command == wire.CmdRead {
		n = int(r.head.Length)
	}
	r.replySize = len(wire.AppendReply(r.reply[:0], &r.head, c.structured, r.errno, n))
	c.replies.push(r.slot)
}

// release frees a slot and its pages.
func (c *conn) release(r *request) {
	if r.pages > 0 {
		c.pages.free(r.first, r.pages)
		r.pages, r.memory = 0, nil
	}
	c.idle = append(c.idle, r.slot)
}

// flush begins the server's own flush at the end. All slots are idle.
func (c *conn) flush() {
	last := len(c.idle) - 1
	r := &c.slots[c.idle[last]]
	c.idle = c.idle[:last]
	r.reset(&wire.Request{Command: wire.CmdFlush}, wire.OK)
	r.silent = true
	c.begin(r)
}
