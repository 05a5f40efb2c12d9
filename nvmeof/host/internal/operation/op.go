package operation

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// A Kind is what an operation does to a namespace.
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

// An Op is an operation on a namespace, which takes one command or several. It
// belongs to its I/O queue's loop from Begin until Done is called, and otherwise to the
// caller, who may use it again.
type Op struct {
	Queue     *IOQueue
	Namespace *Namespace
	Kind      Kind
	FUA       bool
	Free      bool      // Zeroes: the storage may be freed
	Done      func(*Op) // set once
	Err       error     // of the first command that failed
	Stop      error     // why it was canceled: not Err where it may change blocks yet

	// The range in bytes, whole blocks. Flush has length 1, so that it is sent.
	off, length int64

	// The caller's memory stands for length bytes from bufOff, which lies within
	// the range. It is registered where memory is set, and then is all of it.
	buf       []byte
	bufOff    int64
	memory    *fabric.Memory
	memoryOff int
	vector    *Vector // the memory, if it is in pieces: instead of the above

	task   *errand       // instead of memory, of other
	lane   *Lane         // from Begin on
	pos    int64         // what has been sent of the range
	flying int           // commands outstanding
	live   bool          // from Begin until Done
	link   list.Link[Op] // in its lane's waiting
}

// SetRange widens a range to whole blocks and finds the memory. Of what has no data p is
// nil; that of a flush is one byte.
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

// SetVector gives a range of whole blocks memory in pieces.
func (o *Op) SetVector(v *Vector) { o.vector = v }

// Forget lets go of the caller's memory, and of the error.
func (o *Op) Forget() { o.buf, o.memory, o.vector, o.Err = nil, nil, nil, nil }

// Stoppable reports in the loop whether the operation goes on, and nobody has canceled it.
func (o *Op) Stoppable() bool { return o.live && o.Stop == nil }

// changes reports whether the operation changes blocks.
func (o *Op) changes() bool { return o.Kind == Write || o.Kind == Zeroes || o.Kind == Trim }

func (o *Op) allSent() bool { return o.pos == o.length || o.Err != nil }

func (o *Op) fail(err error) {
	if o.Err == nil {
		o.Err = err
	}
}

// end gives the operation back; the I/O queue does not touch it any more.
func (o *Op) end() {
	o.live = false
	o.Done(o)
}

// A chunk is one command of an operation.
type chunk struct {
	request fabric.Request
	op      *Op
	buffer  shard.Buffer // where the data is not in registered memory
	piece   *piece       // of a vector, in which the data lies
	at      int64        // in bytes of the namespace
	next    *chunk
}

// prepare makes a chunk the next command of an operation: n bytes at pos.
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

// place gives the chunk its data: registered memory as it is, or a buffer.
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

// copyOut moves what a read brought to the caller's memory: all of it, or the
// requested part of the blocks at the ends.
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
