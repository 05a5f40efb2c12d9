package backend

import "math/bits"

// Order remembers the waiting operations of one queue, so that a later operation does not overtake an earlier one with
// which it conflicts. A pass over the waiting operations begins with Reset and adds each one that keeps waiting. Two
// operations conflict if both touch the same granule of 4 KiB and at least one of them is exclusive.
type Order struct {
	ops []interval
	// The granules of ops modulo 64, a quick check: most operations conflict with none.
	shared, exclusive uint64
}

// granule is the unit of conflict, in bytes.
const granule = 4096

// An interval is the range of granules that an operation touches, from first to last.
type interval struct {
	first, last uint64
	exclusive   bool
}

// NewOrder returns an Order for up to depth operations.
func NewOrder(depth int) Order { return Order{ops: make([]interval, 0, depth)} }

// Reset forgets all operations.
func (o *Order) Reset() { o.ops, o.shared, o.exclusive = o.ops[:0], 0, 0 }

// Conflicts reports whether an operation conflicts with one that was added.
func (o *Order) Conflicts(offset, length int64, exclusive bool) bool {
	if length <= 0 || o.shared|o.exclusive == 0 {
		return false
	}
	op := newInterval(offset, length, exclusive)
	m := op.mask()
	if m&o.exclusive == 0 && (!exclusive || m&o.shared == 0) {
		return false
	}
	for i := range o.ops {
		other := &o.ops[i]
		if op.first <= other.last && other.first <= op.last && (exclusive || other.exclusive) {
			return true
		}
	}
	return false
}

// Add adds a waiting operation.
func (o *Order) Add(offset, length int64, exclusive bool) {
	if length <= 0 {
		return
	}
	op := newInterval(offset, length, exclusive)
	if o.ops = append(o.ops, op); exclusive {
		o.exclusive |= op.mask()
	} else {
		o.shared |= op.mask()
	}
}

func newInterval(offset, length int64, exclusive bool) interval {
	return interval{uint64(offset) / granule, uint64(offset+length-1) / granule, exclusive}
}

// mask returns a bit for every granule, modulo 64.
func (v *interval) mask() uint64 {
	n := v.last - v.first + 1
	if n >= 64 {
		return ^uint64(0)
	}
	return bits.RotateLeft64(1<<n-1, int(v.first%64))
}
