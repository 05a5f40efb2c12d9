package rc

import (
	"encoding/binary"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// resource remembers an executed READ or atomic, in case it is repeated (IBTA 9.4.4, responder resources).
type resource struct {
	psn    wire.PSN
	n      uint32 // response packets; 0: unused entry
	reth   wire.RETH
	atomic bool
	old    uint64 // the atomic's result
}

// job is a pending response: packets sent..n-1 of a READ, or an atomic's result.
type job struct {
	psn    wire.PSN
	n      uint32
	sent   uint32
	reth   wire.RETH
	again  bool // a repetition, which the peer may not need any more
	atomic bool
	old    uint64
}

// jobQueue holds the pending responses, in order, and the responder resources.
type jobQueue struct {
	resources []resource // ring
	newest    int
	jobs      []job // ring
	head      int
	count     int
}

func (j *jobQueue) init(reads int) {
	j.resources = make([]resource, reads)
	j.jobs = make([]job, 2*reads)
}

func (j *jobQueue) clear() { j.count = 0 }

func (j *jobQueue) remember(r resource) {
	j.newest = (j.newest + 1) % len(j.resources)
	j.resources[j.newest] = r
}

// find returns the resource whose responses include psn.
func (j *jobQueue) find(psn wire.PSN) *resource {
	for i := range j.resources {
		r := &j.resources[i]
		if d := psn.Diff(r.psn); r.n > 0 && d >= 0 && uint32(d) < r.n {
			return r
		}
	}
	return nil
}

func (j *jobQueue) push(b job) bool {
	if j.count == len(j.jobs) {
		return false
	}
	j.jobs[(j.head+j.count)%len(j.jobs)] = b
	j.count++
	return true
}

// repeat queues a repetition, unless its n responses from psn on are already queued. Repetitions may use half of the
// ring, so that there is room for new requests even while the rate limit delays responses.
func (j *jobQueue) repeat(b job) bool {
	repeats := 0
	for i := range j.count {
		q := &j.jobs[(j.head+i)%len(j.jobs)]
		d := b.psn.Diff(q.psn)
		if d >= int32(q.sent) && d+int32(b.n) <= int32(q.n) {
			return false
		}
		if q.again {
			repeats++
		}
	}
	b.again = true
	return repeats < len(j.resources) && j.push(b)
}

func (q *QP) executeRead(p *wire.Packet) (packets uint32, ok bool) {
	r := &q.resp
	if len(r.jobs.resources) == 0 || p.RETH.DMALen > MaxMessage {
		return 0, q.refuse(wire.SyndromeInvalidRequest, rdmatransport.StatusFlushed)
	}
	if p.RETH.DMALen > 0 {
		if _, ok := q.readable(&p.RETH); !ok {
			return 0, q.refuse(wire.SyndromeRemoteAccess, rdmatransport.StatusFlushed)
		}
	}
	mtu := uint32(q.peer.PathMTU)
	n := max(1, (p.RETH.DMALen+mtu-1)/mtu)
	if !r.jobs.push(job{psn: p.PSN, n: n, reth: p.RETH}) {
		// More outstanding requests than negotiated (IBTA 9.7.4.1.5).
		return 0, q.refuse(wire.SyndromeInvalidRequest, rdmatransport.StatusFlushed)
	}
	r.jobs.remember(resource{psn: p.PSN, n: n, reth: p.RETH})
	return n, true
}

func (q *QP) readable(h *wire.RETH) ([]byte, bool) {
	return q.cfg.Keys.Remote(h.RKey, h.VA, h.DMALen, rdmatransport.AccessRemoteRead)
}

// executeAtomic executes an atomic on 8 aligned bytes in native byte order.
func (q *QP) executeAtomic(p *wire.Packet) bool {
	r := &q.resp
	h := &p.AtomicETH
	if len(r.jobs.resources) == 0 || h.VA%8 != 0 {
		return q.refuse(wire.SyndromeInvalidRequest, rdmatransport.StatusFlushed)
	}
	b, ok := q.cfg.Keys.Remote(h.RKey, h.VA, 8, rdmatransport.AccessRemoteAtomic)
	if !ok {
		return q.refuse(wire.SyndromeRemoteAccess, rdmatransport.StatusFlushed)
	}
	word := (*uint64)(unsafe.Pointer(&b[0]))
	if uintptr(unsafe.Pointer(word))%8 != 0 {
		return q.refuse(wire.SyndromeRemoteOperational, rdmatransport.StatusFlushed)
	}
	if len(r.jobs.jobs) == r.jobs.count {
		return q.refuse(wire.SyndromeInvalidRequest, rdmatransport.StatusFlushed)
	}
	old := swap(word, p.Opcode == wire.RCCompareSwap, h)
	r.jobs.push(job{psn: p.PSN, n: 1, atomic: true, old: old})
	r.jobs.remember(resource{psn: p.PSN, n: 1, atomic: true, old: old})
	return true
}

// swap executes the operation atomically with respect to queue pairs of other shards.
func swap(word *uint64, compare bool, h *wire.AtomicETH) (old uint64) {
	for {
		old = atomic.LoadUint64(word)
		value := old + h.SwapAdd
		if compare {
			if old != h.Compare {
				return old
			}
			value = h.SwapAdd
		}
		if atomic.CompareAndSwapUint64(word, old, value) {
			return old
		}
	}
}

// storeAtomicResult stores an atomic's old value in the scatter list, in native byte order.
func storeAtomicResult(sgl []rdmatransport.SGE, old uint64) {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], old)
	scatter(sgl, 0, b[:])
}

// receiveDuplicate answers a repeated request (IBTA 9.7.5.1.3): SENDs and WRITEs with an acknowledgement, READs and
// atomics with their responses.
func (q *QP) receiveDuplicate(now time.Duration, p *wire.Packet, flags wire.OpFlags) {
	r := &q.resp
	q.cfg.Counters.Duplicates++
	if flags&(wire.FlagReadRequest|wire.FlagAtomic) == 0 {
		r.ackDue = true
		return
	}
	res := r.jobs.find(p.PSN)
	if res == nil || res.atomic != (flags&wire.FlagAtomic != 0) {
		q.cfg.Counters.StaleDuplicates++
		return
	}
	if res.atomic {
		r.jobs.repeat(job{psn: p.PSN, n: 1, atomic: true, old: res.old})
		return
	}
	mtu := uint32(q.peer.PathMTU)
	at := uint64(uint32(p.PSN.Diff(res.psn)) * mtu)
	inside := p.RETH.RKey == res.reth.RKey && p.RETH.VA == res.reth.VA+at &&
		wire.InRange(at, uint64(p.RETH.DMALen), uint64(res.reth.DMALen))
	if !inside {
		q.cfg.Counters.StaleDuplicates++
		return
	}
	n := max(1, (p.RETH.DMALen+mtu-1)/mtu)
	if r.jobs.repeat(job{psn: p.PSN, n: n, reth: p.RETH}) {
		q.lostResponses(now, int(n))
	}
}

// lostResponses is called when the peer has asked for n responses again.
func (q *QP) lostResponses(now time.Duration, n int) {
	most := lossAlpha
	if q.peer.Own {
		q.resp.meter.count(0, n)
		most = q.resp.meter.excess()
	}
	if most > 0 {
		q.congested(now, most)
	}
}

// transmitResponses emits pending responses, in order.
func (q *QP) transmitResponses(now time.Duration, o *Outbox) (more bool) {
	r := &q.resp
	for r.jobs.count > 0 && q.state == StateConnected {
		if o.Full() {
			return true
		}
		if !q.sendResponse(now, o, &r.jobs.jobs[r.jobs.head]) {
			return o.Full()
		}
		r.jobs.head = (r.jobs.head + 1) % len(r.jobs.jobs)
		r.jobs.count--
	}
	return false
}

// ackReady reports whether an ACK or NAK is pending.
func (q *QP) ackReady() bool {
	return q.resp.nakDue || q.resp.ackDue
}

// sendResponse emits packets of one job. It returns false if the outbox is full or the rate limit delays the rest.
func (q *QP) sendResponse(now time.Duration, o *Outbox, b *job) bool {
	if b.atomic {
		h := q.header(b.psn)
		h.Opcode = wire.RCAtomicAck
		h.AETH = wire.AETH{Syndrome: wire.SyndromeAck, MSN: q.resp.msn}
		h.AtomicAck = b.old
		o.start().finish(&h)
		return true
	}
	var mem []byte
	if b.reth.DMALen > 0 {
		var ok bool
		mem, ok = q.readable(&b.reth)
		if !ok && b.again {
			// The peer had its response, and the key was invalidated after that.
			q.cfg.Counters.StaleDuplicates++
			return true
		}
		if !ok {
			// The key was invalidated after the request. A NAK with the expected PSN would be ignored as a ghost
			// (IBTA 9.7.5.1.1), and would not refer to the request that is refused.
			at := b.psn.Add(b.sent)
			q.refuse(wire.SyndromeRemoteAccess, rdmatransport.StatusFlushed)
			q.resp.nakPSN = at
			return true
		}
	}
	mtu := q.peer.PathMTU
	for ; b.sent < b.n; b.sent++ {
		if o.Full() {
			return false
		}
		at := int(b.sent) * mtu
		if q.rate.on && !q.paced(now, min(mtu, len(mem)-at)+packetCost) {
			return false
		}
		first, last := b.sent == 0, b.sent == b.n-1
		h := q.header(b.psn.Add(b.sent))
		h.Opcode = readOpcode(first || q.peer.Own, last || q.peer.Own)
		h.AETH = wire.AETH{Syndrome: wire.SyndromeAck, MSN: q.resp.msn}
		out := o.start()
		out.add(mem[at:min(at+mtu, len(mem))])
		out.finish(&h)
		q.resp.meter.count(1, 0)
	}
	return true
}

// readOpcode returns the opcode of a response packet by its position. A softroce peer gets only Only packets, which
// have the same headers and so take as few sends as possible.
func readOpcode(first, last bool) wire.Opcode {
	switch {
	case first && last:
		return wire.RCReadResponseOnly
	case first:
		return wire.RCReadResponseFirst
	case last:
		return wire.RCReadResponseLast
	}
	return wire.RCReadResponseMiddle
}

// ackRepeats are the delays after which an acknowledgement is repeated if the peer stays silent. If the first was
// lost, a foreign peer would only notice by its own slow timer, whose retransmission makes Linux hosts lose their
// controller.
var ackRepeats = [...]time.Duration{25 * time.Millisecond, 75 * time.Millisecond, 200 * time.Millisecond}

// Maximum delays of an acknowledgement to a softroce peer, asked for or not. By then most are sent together with the
// next request: the application is waiting for what has just arrived, and its next requests take a few microseconds.
// A send of its own takes three.
const (
	askedDelay   = 10 * time.Microsecond
	unaskedDelay = 200 * time.Microsecond
)

// oweAck schedules an acknowledgement that can be delayed.
func (q *QP) oweAck(now time.Duration) {
	r := &q.resp
	if !q.peer.Own || r.unacked == 0 || r.ackDue {
		return
	}
	at := now + unaskedDelay
	if r.asked {
		at = now + askedDelay
	}
	if !q.timer.running(timerAck) || at < q.timer.at[timerAck] {
		q.timer.set(timerAck, at)
	}
}

// AckNow makes a delayed acknowledgement due for the next Transmit, and reports whether there is one.
func (q *QP) AckNow() bool {
	r := &q.resp
	if q.state != StateConnected || r.unacked == 0 {
		return false
	}
	r.ackDue = true
	return true
}

// ridesAlong reports whether a delayed acknowledgement takes no datagram of its own now, because it can be the
// shorter last segment after equal packets.
func (q *QP) ridesAlong(o *Outbox) bool {
	return q.peer.Own && q.resp.unacked > 0 && o.equal()
}

func (q *QP) sendAck(now time.Duration, o *Outbox) {
	r := &q.resp
	h := q.header(r.answered)
	h.Opcode = wire.RCAck
	if q.peer.Own { // a softroce peer knows which responses are missing
		h.PSN = r.expected.Sub(1)
	}
	h.AETH = wire.AETH{Syndrome: wire.SyndromeAck, MSN: r.msn}
	if r.nakDue {
		h.PSN = r.nakPSN
		h.AETH.Syndrome = r.nak
		if r.nak == wire.SyndromeSequence {
			q.cfg.Counters.SequenceNAKsSent++
		}
	}
	out := o.start()
	if q.peer.Own && !r.nakDue {
		out.add(r.bitmap.fill(r.expected, r.held.list))
	}
	out.finish(&h)
	fresh, nak := r.unacked > 0, r.nakDue
	r.nakDue, r.ackDue, r.asked, r.unacked = false, false, false, 0
	q.timer.stop(timerAck)
	q.timer.stop(timerAckRepeat)
	if nak || q.peer.Own || q.state != StateConnected {
		return
	}
	if fresh {
		r.repeats = 0
	}
	if r.repeats < len(ackRepeats) {
		q.timer.set(timerAckRepeat, now+ackRepeats[r.repeats])
	}
}

func (q *QP) repeatAck(time.Duration) {
	q.resp.repeats++
	q.resp.ackDue = true
	q.cfg.Counters.AckRepeats++
}
