package operation

import (
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
)

// A Vector is the memory of an operation in pieces of whole blocks, which cover the range in order.
type Vector struct {
	pieces []piece
	next   int // the piece at the operation's pos, or an earlier one; owned by the loop
}

// A piece is a part of registered memory, or buffers whose data is copied.
type piece struct {
	at, length int64 // in the range
	memory     *fabric.Memory
	memoryOff  int
	bufs       [][]byte
}

// NewVector makes a vector of buffers: those of whole blocks in registered memory are used directly, others are copied.
func NewVector(n *Namespace, bufs [][]byte) *Vector {
	v := &Vector{}
	at, block := int64(0), int64(1)<<n.Shift-1
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		length := int64(len(b))
		if (at|length)&block == 0 {
			if m, off := n.Domain.Find(b); m != nil {
				v.pieces = append(v.pieces, piece{at: at, length: length, memory: m, memoryOff: off})
				at += length
				continue
			}
		}
		v.copied(at, b)
		at += length
	}
	return v
}

// copied adds a buffer to the piece before it if that is copied, or makes a new piece.
func (v *Vector) copied(at int64, b []byte) {
	last := len(v.pieces) - 1
	if last < 0 || v.pieces[last].memory != nil {
		v.pieces = append(v.pieces, piece{at: at})
		last++
	}
	p := &v.pieces[last]
	p.bufs = append(p.bufs, b)
	p.length += int64(len(b))
}

// enter makes the piece at pos the operation's memory. It returns the piece, and how much of the next step it covers.
func (o *Op) enter(step int64) (*piece, int64) {
	v := o.vector
	for v.pieces[v.next].end() <= o.pos {
		v.next++
	}
	p := &v.pieces[v.next]
	o.memory, o.memoryOff = p.memory, p.memoryOff-int(p.at)
	return p, min(step, p.end()-o.pos)
}

func (p *piece) end() int64 { return p.at + p.length }

// addParts extends a command that reaches the end of its piece by the registered pieces that follow, as many as the
// controller takes. It returns the number of bytes added.
func (q *IOQueue) addParts(c *chunk) int64 {
	o, r := c.op, &c.request
	at := o.pos + int64(r.Length)
	left := q.step(o) - int64(r.Length)
	for i := o.vector.next + 1; i < len(o.vector.pieces) && left > 0 && len(r.More) < q.limits.Parts-1; i++ {
		p := &o.vector.pieces[i]
		if p.memory == nil || p.at != at {
			break
		}
		n := min(left, p.length)
		r.More = append(r.More, fabric.Part{Memory: p.memory, Offset: p.memoryOff, Length: int(n)})
		at, left = at+n, left-n
	}
	added := at - o.pos - int64(r.Length)
	if added > 0 {
		rw := r.Command.ReadWrite()
		rw.Blocks = uint32((int64(r.Length) + added) >> o.Namespace.Shift)
		rw.Put(&r.Command)
	}
	return added
}

// copyIn fills b from the buffers, starting at offset at of the range.
func (p *piece) copyIn(b []byte, at int64) {
	p.each(len(b), at, func(part []byte) { b = b[copy(b, part):] })
}

// copyOut fills the buffers from b.
func (p *piece) copyOut(b []byte, at int64) {
	p.each(len(b), at, func(part []byte) { b = b[copy(part, b):] })
}

// each calls f for the buffers of n bytes, starting at offset at of the range.
func (p *piece) each(n int, at int64, f func([]byte)) {
	at -= p.at
	for _, b := range p.bufs {
		if at >= int64(len(b)) {
			at -= int64(len(b))
			continue
		}
		part := b[at:]
		part = part[:min(n, len(part))]
		f(part)
		if n -= len(part); n == 0 {
			return
		}
		at = 0
	}
}
