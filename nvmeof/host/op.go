package host

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
)

// An opKind is what an operation does to a namespace.
type opKind uint8

const (
	opRead opKind = iota
	opWrite
	opFlush
	opZeroes
	opTrim
	opCompare
	opVerify
)

// An op is an operation on a namespace, which takes one command or several. It
// belongs to its lane's loop from begin until done is called.
type op struct {
	lane *lane
	ns   *Namespace
	kind opKind
	fua  bool
	free bool // opZeroes: the storage may be freed

	// The range in bytes, whole blocks. opFlush has length 1, so that it is sent.
	off, length int64

	// The caller's memory stands for length bytes from bufOff, which lies within
	// the range. It is registered where memory is set, and then is all of it.
	buf       []byte
	bufOff    int64
	memory    *fabric.Memory
	memoryOff int
	vector    *vector // the memory, if it is in pieces: instead of the above

	pos    int64         // what has been sent of the range
	flying int           // commands outstanding
	err    error         // of the first command that failed
	live   bool          // from begin until done
	stop   error         // why it was canceled; the caller's while it is not live
	link   list.Link[op] // in its lane's waiting
	done   func(*op)     // set once
}

func (o *op) allSent() bool { return o.pos == o.length || o.err != nil }

func (o *op) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// end gives the operation back; the lane does not touch it any more.
func (o *op) end() {
	o.live = false
	o.done(o)
}

// A chunk is one command of an operation.
type chunk struct {
	request fabric.Request
	op      *op
	buffer  shard.Buffer // where the data is not in registered memory
	piece   *piece       // of a vector, in which the data lies
	at      int64        // in bytes of the namespace
	next    *chunk
}

// prepare makes a chunk the next command of an operation: n bytes at pos.
func (c *chunk) prepare(o *op, n int) {
	c.op, c.at = o, o.off+o.pos
	c.request.Whole = o.kind == opRead
	cmd := &c.request.Command
	*cmd = capsule.Command{NSID: o.ns.id}
	rw := capsule.ReadWrite{
		SLBA: capsule.LBA(c.at >> o.ns.shift), Blocks: uint32(n >> o.ns.shift), FUA: o.fua,
	}
	switch o.kind {
	case opRead:
		cmd.Opcode = capsule.Opcode(capsule.IORead)
		rw.Put(cmd)
	case opWrite:
		cmd.Opcode = capsule.Opcode(capsule.IOWrite)
		rw.Put(cmd)
	case opCompare:
		cmd.Opcode = capsule.Opcode(capsule.IOCompare)
		rw.Put(cmd)
	case opVerify:
		cmd.Opcode = capsule.Opcode(capsule.IOVerify)
		rw.Put(cmd)
	case opFlush:
		cmd.Opcode = capsule.Opcode(capsule.IOFlush)
	case opZeroes:
		cmd.Opcode = capsule.Opcode(capsule.IOWriteZeroes)
		rw.DEAC = o.free
		rw.Put(cmd)
	case opTrim:
		cmd.Opcode = capsule.Opcode(capsule.IODatasetManagement)
		capsule.DatasetManagement{Ranges: 1, Deallocate: true}.Put(cmd)
	}
}

// place gives the chunk its data: registered memory as it is, or a buffer.
func (c *chunk) place(p *pool, b shard.Buffer, n int) {
	r, o := &c.request, c.op
	r.Memory, r.Offset, r.Length, r.More = nil, 0, 0, r.More[:0]
	c.buffer = b
	switch {
	case b.Valid():
		r.Memory, r.Offset, r.Length = p.memory, p.offset(b), n
		switch o.kind {
		case opWrite, opCompare:
			if c.piece != nil {
				c.piece.copyIn(b.Bytes()[:n], c.at-o.off)
				break
			}
			copy(b.Bytes()[:n], o.buf[c.at-o.bufOff:])
		case opTrim:
			rw := capsule.DSMRange{SLBA: capsule.LBA(c.at >> o.ns.shift), Blocks: c.trimBlocks()}
			rw.Encode(b.Bytes())
			r.Length = capsule.DSMRangeSize
		}
	case o.memory != nil:
		r.Memory, r.Offset, r.Length = o.memory, o.memoryOff+int(o.pos), n
	}
}

func (c *chunk) trimBlocks() uint32 {
	return uint32(c.op.lane.step(c.op) >> c.op.ns.shift)
}

// copyOut moves what a read brought to the caller's memory: all of it, or the
// part that was asked for of blocks at the ends.
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
