package operation

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A Kind is the kind of an operation.
type Kind uint8

const (
	Read Kind = iota
	Write
	Flush
	Zeroes
	Trim
	Compare
	Verify
	other // a task
)

// An Op is an operation on a namespace, which takes one or several commands. It is owned by its I/O queue's loop from
// Begin until Done is called, and otherwise by the caller, who may reuse it.
type Op struct {
	Queue     *IOQueue
	Namespace *Namespace
	Kind      Kind
	FUA       bool
	Free      bool      // Zeroes: the storage may be deallocated
	Done      func(*Op) // set once
	Err       error     // of the first command that failed
	Stop      error     // why it was canceled; Err differs if it may still change blocks

	// The range in bytes, of whole blocks. A flush has length 1, so that one command is sent.
	off, length int64

	// The caller's memory, which covers the range from bufOff. If memory is set, buf is registered memory and covers
	// the whole range.
	buf       []byte
	bufOff    int64
	memory    *fabric.Memory
	memoryOff int
	vector    *Vector // used instead of the above if the memory is in pieces

	task     *taskOp       // used instead of memory if Kind is other
	lane     *Lane         // from Begin on
	pos      int64         // how many bytes of the range have been sent
	inFlight int           // number of commands outstanding
	live     bool          // from Begin until Done
	link     list.Link[Op] // in its lane's waiting
}

// SetRange widens a range to whole blocks and looks up the memory. p is nil for kinds without data. The length of a
// flush is 1.
func (o *Op) SetRange(p []byte, off, length int64) {
	o.buf, o.bufOff, o.off, o.length = p, off, off, length
	o.memory, o.memoryOff = nil, 0
	if o.Kind != Read && o.Kind != Write && o.Kind != Compare {
		return
	}
	block := int64(1)<<o.Namespace.Shift - 1
	o.off = off &^ block
	o.length = (off+length+block)&^block - o.off
	if o.length == length {
		o.memory, o.memoryOff = o.Namespace.Domain.Find(p)
	}
}

// SetVector sets memory in pieces for a range of whole blocks.
func (o *Op) SetVector(v *Vector) { o.vector = v }

// Forget drops the references to the caller's memory and the error.
func (o *Op) Forget() { o.buf, o.memory, o.vector, o.Err = nil, nil, nil, nil }

// Stoppable reports whether the operation is live and not canceled. It must be called in the loop.
func (o *Op) Stoppable() bool { return o.live && o.Stop == nil }

// changes reports whether the operation changes blocks.
func (o *Op) changes() bool { return o.Kind == Write || o.Kind == Zeroes || o.Kind == Trim }

func (o *Op) allSent() bool { return o.pos == o.length || o.Err != nil }

func (o *Op) fail(err error) {
	if o.Err == nil {
		o.Err = err
	}
}

// end returns the operation to the caller; the I/O queue does not access it any more.
func (o *Op) end() {
	o.live = false
	o.Done(o)
}

// A chunk is one command of an operation.
type chunk struct {
	request fabric.Request
	op      *Op
	buffer  shard.Buffer // used if the data is not in registered memory
	piece   *piece       // of a vector: contains the data
	at      int64        // offset in the namespace, in bytes
	next    *chunk
}

// prepare makes a chunk the next command of an operation: n bytes from pos.
func (c *chunk) prepare(o *Op, n int) {
	c.op, c.at = o, o.off+o.pos
	c.request.Whole, c.request.Source = o.Kind == Read, &o.lane.source
	cmd := &c.request.Command
	*cmd = capsule.Command{NSID: o.Namespace.ID}
	rw := capsule.ReadWrite{
		SLBA: capsule.LBA(c.at >> o.Namespace.Shift), Blocks: uint32(n >> o.Namespace.Shift), FUA: o.FUA,
	}
	switch o.Kind {
	case Read:
		cmd.Opcode = capsule.Opcode(capsule.IORead)
		rw.Put(cmd)
	case Write:
		cmd.Opcode = capsule.Opcode(capsule.IOWrite)
		rw.Put(cmd)
	case Compare:
		cmd.Opcode = capsule.Opcode(capsule.IOCompare)
		rw.Put(cmd)
	case Verify:
		cmd.Opcode = capsule.Opcode(capsule.IOVerify)
		rw.Put(cmd)
	case Flush:
		cmd.Opcode = capsule.Opcode(capsule.IOFlush)
	case Zeroes:
		cmd.Opcode = capsule.Opcode(capsule.IOWriteZeroes)
		rw.DEAC = o.Free
		rw.Put(cmd)
	case Trim:
		cmd.Opcode = capsule.Opcode(capsule.IODatasetManagement)
		capsule.DatasetManagement{Ranges: 1, Deallocate: true}.Put(cmd)
	}
}

// place sets the chunk's data: registered memory, or a buffer.
func (c *chunk) place(p *association.Pool, b shard.Buffer, n int) {
	r, o := &c.request, c.op
	r.Memory, r.Offset, r.Length, r.More = nil, 0, 0, r.More[:0]
	c.buffer = b
	switch {
	case b.Valid():
		r.Memory, r.Offset, r.Length = p.Memory, p.Offset(b), n
		switch o.Kind {
		case Write, Compare:
			if c.piece != nil {
				c.piece.copyIn(b.Bytes()[:n], c.at-o.off)
				break
			}
			copy(b.Bytes()[:n], o.buf[c.at-o.bufOff:])
		case Trim:
			rw := capsule.DSMRange{SLBA: capsule.LBA(c.at >> o.Namespace.Shift), Blocks: c.trimBlocks()}
			rw.Encode(b.Bytes())
			r.Length = capsule.DSMRangeSize
		}
	case o.memory != nil:
		r.Memory, r.Offset, r.Length = o.memory, o.memoryOff+int(o.pos), n
	}
}

func (c *chunk) trimBlocks() uint32 {
	return uint32(c.op.Queue.step(c.op) >> c.op.Namespace.Shift)
}

// copyOut copies the data of a read to the caller's memory, without the parts of the first and last block that were not
// requested.
func (c *chunk) copyOut() {
	o, n := c.op, int64(c.request.Length)
	if c.piece != nil {
		c.piece.copyOut(c.buffer.Bytes()[:n], c.at-o.off)
		return
	}
	from, to := max(c.at, o.bufOff), min(c.at+n, o.bufOff+int64(len(o.buf)))
	if from < to {
		copy(o.buf[from-o.bufOff:to-o.bufOff], c.buffer.Bytes()[from-c.at:to-c.at])
	}
}
