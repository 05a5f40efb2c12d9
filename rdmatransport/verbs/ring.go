//go:build verbs && cgo && linux

package verbs

import "github.com/nvmeof-go/nvmeof/rdmatransport"

// A sequence is the number of a request in its queue: 31 bits. The other bits of a work request's ID identify the
// queue.
type sequence uint32

const sequenceMask = 1<<31 - 1

// An entry is one posted request.
type entry struct {
	id       uint64
	bytes    uint32
	op       rdmatransport.Opcode
	internal bool // not posted by the consumer: no completion is delivered
	relaxed  bool // its completion may be delayed
}

// outstanding counts the requests in the send queues of one completion queue.
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

// A ring holds the posted requests of one queue, in order: first those that the device has, then those that wait to
// be flushed in software after the device's last completion.
type ring struct {
	entries []entry // length is a power of two
	head    sequence
	device  sequence // end of the device's part
	tail    sequence
	users   int          // entries that are not internal
	broken  bool         // nothing more is posted to the device
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

// deviceLength returns the number of requests that the device has.
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

// wait adds a request that is not posted to the device.
func (r *ring) wait(e entry) {
	*r.at(r.tail) = e
	r.out.add(&e, 1)
	r.tail = (r.tail + 1) & sequenceMask
	if !e.internal {
		r.users++
	}
}

// pop removes and returns the oldest request.
func (r *ring) pop() entry {
	if r.head == r.device { // it was waiting
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

// complete removes everything up to s, which the device has completed; earlier requests were unsignaled and
// successful. It returns false if s is not posted.
func (r *ring) complete(s sequence) (entry, bool) {
	if int((s-r.head)&sequenceMask) >= r.deviceLength() {
		return entry{}, false
	}
	for r.head != s {
		r.pop()
	}
	return r.pop(), true
}

// forget drops everything when the queue pair is closed.
func (r *ring) forget() {
	for r.length() > 0 {
		r.pop()
	}
}

// abandon makes all requests wait, because the device was removed or refuses requests. Its later completions are
// ignored.
func (r *ring) abandon() { r.device, r.broken = r.head, true }
