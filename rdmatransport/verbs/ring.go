//go:build verbs && cgo && linux

package verbs

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// A sequence numbers the requests of one queue: 31 bits, the rest of a work
// request's identifier says which queue it is.
type sequence uint32

const sequenceMask = 1<<31 - 1

// An entry is one posted request.
type entry struct {
	id       uint64
	bytes    uint32
	op       rdmatransport.Opcode
	internal bool // ours: no completion is delivered
	relaxed  bool // its completion may be late
}

// outstanding counts the requests of the send queues of one completion queue.
type outstanding struct{ urgent, relaxed int }

func (o *outstanding) add(e *entry, n int) {
	switch {
	case o == nil:
	case e.relaxed:
		o.relaxed += n
	default:
		o.urgent += n
	}
}

// A ring remembers what is posted on one queue, in order: first what the device
// has, then what waits for the device's last completion to be flushed by us.
type ring struct {
	entries []entry // a power of two
	head    sequence
	device  sequence // end of the device's part
	tail    sequence
	users   int          // entries that are not internal
	broken  bool         // the device gets no more
	out     *outstanding // nil: not counted
}

func newRing(depth int, out *outstanding) ring {
	n := 1
	for n < depth {
		n *= 2
	}
	return ring{entries: make([]entry, n), out: out}
}

func (r *ring) at(s sequence) *entry { return &r.entries[int(s)&(len(r.entries)-1)] }

func (r *ring) length() int { return int((r.tail - r.head) & sequenceMask) }

// deviceLength is how many the device has.
func (r *ring) deviceLength() int { return int((r.device - r.head) & sequenceMask) }

// push adds a request for the device and returns its number.
func (r *ring) push(e entry) sequence {
	s := r.tail
	r.wait(e)
	if !r.broken {
		r.device = r.tail
	}
	return s
}

// wait adds a request that the device never gets.
func (r *ring) wait(e entry) {
	*r.at(r.tail) = e
	r.out.add(&e, 1)
	r.tail = (r.tail + 1) & sequenceMask
	if !e.internal {
		r.users++
	}
}

// pop takes the oldest.
func (r *ring) pop() entry {
	if r.head == r.device { // of those that wait
		r.device = (r.device + 1) & sequenceMask
	}
	e := *r.at(r.head)
	r.out.add(&e, -1)
	r.head = (r.head + 1) & sequenceMask
	if !e.internal {
		r.users--
	}
	return e
}

// complete takes everything up to s, which the device has completed: what is
// before it was unsignaled and went well. It reports false for what is not posted.
func (r *ring) complete(s sequence) (entry, bool) {
	if int((s-r.head)&sequenceMask) >= r.deviceLength() {
		return entry{}, false
	}
	for r.head != s {
		r.pop()
	}
	return r.pop(), true
}

// forget drops everything: the queue pair is gone.
func (r *ring) forget() {
	for r.length() > 0 {
		r.pop()
	}
}

// abandon has everything wait: the device is gone, or refuses. What it completes
// nevertheless is ignored.
func (r *ring) abandon() { r.device, r.broken = r.head, true }
