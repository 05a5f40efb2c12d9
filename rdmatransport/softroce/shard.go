package softroce

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/internal/mailbox"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/rc"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// deliveryTimeout is how long responses to READs that do not come count in the receive
// budget while others wait for it. It is shorter than what consumers of the device may
// have, who would take for a peer's delay what is ours.
const deliveryTimeout = 2 * time.Millisecond

// keepLimit is how many packets that came out of order one shard keeps.
const keepLimit = 2048

// A shard is a completion queue and everything behind it: its sockets, its queue
// pairs and their timers. One goroutine at a time drives it by Poll, Flush and
// Wait; only the mailbox is for others.
type shard struct {
	dev   *Device
	index int
	port  udp.Port
	now   time.Duration // of this turn, since the device was opened
	rng   *rand.ChaCha8

	qps    map[rdmatransport.QPN]*queuePair
	done   rc.Completions
	store  rc.Store
	budget rc.Budget
	stats  Stats

	busy   bool // the last Poll received something
	batch  *udp.RecvBatch
	full   int // batches that were full, since one was not
	icrc   wire.ICRC
	packet wire.Packet
	last   *queuePair // most packets go where the one before went

	active   []*queuePair  // have something to send, or may have
	again    []*queuePair  // the other half of that list, swapped each Flush
	blocked  []*queuePair  // wait for the receive budget
	wroteOff time.Duration // when others were last asked for it
	timers   timerHeap
	mail     mailbox.Mailbox
	foreign  atomic.Int32 // packets from other shards in it
	reach    reach
	tx       transmitter
	manager  *manager // connection manager; shard 0 only
	tap      *tap     // of packets; nil: nobody captures

	// still says that nothing is received and sent, and no timer fires: before Begin, and
	// after Move.
	still    bool
	exported map[rdmatransport.QPN]bool // queue pairs, for which packets are kept
	kept     []keptPacket
	reserved map[rdmatransport.QPN]bool // numbers of queue pairs that are to be adopted
}

func newShard(d *Device, index int, port udp.Port) *shard {
	s := &shard{dev: d, index: index, port: port, qps: map[rdmatransport.QPN]*queuePair{}}
	s.rng = rand.NewChaCha8(d.seed())
	s.store.Limit = keepLimit
	s.budget.Limit = port.ReceiveBudget()
	s.tx.init(port, &s.stats)
	s.batch = port.NewBatch()
	return s
}

// newQPN picks an unpredictable free number that steers to this shard.
func (s *shard) newQPN() rdmatransport.QPN {
	n := uint32(len(s.dev.shards))
	for {
		qpn := uint32(s.rng.Uint64()) & 0xffffff
		qpn = qpn - qpn%n + uint32(s.index)
		// 0 and 1 are management queue pairs, the highest is multicast; rxe and
		// RNICs number from above 15.
		if qpn < 16 || qpn >= 0xffffff {
			continue
		}
		if id := rdmatransport.QPN(qpn); s.qps[id] == nil && !s.reserved[id] && !s.exported[id] {
			return id
		}
	}
}

// do runs f on the goroutine that drives the shard.
func (s *shard) do(f func()) {
	s.mail.Put(f)
	s.port.Wake()
}

// Poll implements rdmatransport.CompletionQueue.
func (s *shard) Poll(cs []rdmatransport.Completion) int {
	s.now = s.dev.clock()
	if len(cs) == 0 {
		return 0
	}
	s.mail.Run()
	if s.still {
		s.busy = false
		return s.done.Poll(cs)
	}
	if s.full++; !s.receive() || s.full >= mostFull {
		s.full = 0
		s.expire()
	}
	if s.manager != nil {
		s.manager.turn(s.now)
	}
	return s.done.Poll(cs)
}

// mostFull is how many batches of the socket may be full, one after another, before timers run all the
// same: what lay in its buffer, of 16 MiB, when the first came has been received by then. A peer that
// never lets it become empty would keep all others from sending anything again.
const mostFull = 512

// expire runs the timers that are due. What they wait for must not lie in the
// socket: after a pause of this thread more than one batch does, and a READ that
// is requested again although it was answered costs a Linux host its controller.
func (s *shard) expire() {
	for q := s.timers.due(s.now); q != nil; q = s.timers.due(s.now) {
		q.rc.Timeout(s.now)
		s.activate(q)
		s.timers.update(q)
	}
}

// Now implements rdmatransport.CompletionQueue.
func (s *shard) Now() int64 { return int64(s.now) }

// Busy implements rdmatransport.CompletionQueue.
func (s *shard) Busy() bool { return s.busy }

// ReceiveBudget implements rdmatransport.CompletionQueue: payload bytes, of which
// the socket's buffer holds about a third of its size in packets of 1 KiB, and
// not quite half in packets of 4 KiB.
func (s *shard) ReceiveBudget() int { return s.budget.Limit / 3 }

// activate puts q on the list of those that Flush asks for packets.
func (s *shard) activate(q *queuePair) {
	if !q.active && !q.closed {
		q.active = true
		s.active = append(s.active, q)
	}
}

// Flush implements rdmatransport.CompletionQueue.
func (s *shard) Flush() {
	if s.still {
		return
	}
	s.unblock()
	if len(s.active) > 0 {
		s.flushActive()
	}
	if s.manager != nil {
		s.manager.send()
	}
	s.tx.flush()
}

// flushActive hands to the network what queue pairs have to send.
func (s *shard) flushActive() {
	s.reach.begin()
	defer s.reach.end()
	for len(s.active) > 0 {
		s.active, s.again = s.again[:0], s.active
		for _, q := range s.again {
			q.active = false
			if !q.closed {
				s.flushQP(q)
			}
		}
		clear(s.again) // or it would keep those that are closed
	}
	s.tx.flush()
}

// flushNow does so for one, at once.
func (s *shard) flushNow(q *queuePair) {
	s.reach.begin()
	defer s.reach.end()
	s.flushQP(q)
	s.tx.flush() // whose memory may be freed now
}

// unblock gives queue pairs that waited for the receive budget another try.
func (s *shard) unblock() {
	if len(s.blocked) == 0 {
		return
	}
	if s.now-s.wroteOff > deliveryTimeout/2 {
		s.wroteOff = s.now
		for _, q := range s.qps {
			q.rc.WriteOff(s.now - deliveryTimeout)
		}
	}
	if s.budget.Used() >= s.budget.Limit {
		return
	}
	for _, q := range s.blocked {
		s.activate(q)
	}
	clear(s.blocked)
	s.blocked = s.blocked[:0]
}

// flushQP gathers all that q may send now.
func (s *shard) flushQP(q *queuePair) {
	for more := true; more; {
		more = q.rc.Transmit(s.now, s.tx.box)
		s.tx.add(q)
	}
	if q.rc.Blocked() {
		s.blocked = append(s.blocked, q)
	}
	s.timers.update(q)
	if q.ending() {
		s.tx.flush() // the owner of a completion may free memory
		q.reportEnd()
	}
}

// Wait implements rdmatransport.CompletionQueue.
func (s *shard) Wait(d int64) { s.port.Wait(time.Duration(d)) }

// Due implements rdmatransport.CompletionQueue.
func (s *shard) Due() int64 {
	if s.mail.Full() || s.done.Len() > 0 {
		return 0
	}
	if s.still {
		return -1
	}
	next := s.timers.next()
	if len(s.blocked) > 0 {
		next = min(next, s.wroteOff+deliveryTimeout)
	}
	if s.manager != nil {
		next = min(next, s.manager.deadline())
	}
	if next == rc.Never {
		return -1
	}
	return max(0, int64(next-s.dev.clock()))
}

// Wake implements rdmatransport.CompletionQueue.
func (s *shard) Wake() { s.port.Wake() }

// Watch implements rdmatransport.CompletionQueue.
func (s *shard) Watch(fd int) error { return s.port.Watch(fd) }

// snapshot copies the counters.
func (s *shard) snapshot() Stats {
	out := s.stats
	out.QueuePairs = len(s.qps)
	out.UDP = s.port.Stats()
	if s.manager != nil {
		out.CM = s.manager.engine.Counters
	}
	return out
}

// Close implements rdmatransport.CompletionQueue. The next owner hears of nothing that was the last one's, as of
// shared receives, which outlive their queue pairs.
func (s *shard) Close() error {
	s.end()
	s.done.Drop()
	s.dev.giveBack(s)
	return nil
}

// end closes the shard's queue pairs, of which peers are notified.
func (s *shard) end() {
	for _, q := range s.qps {
		q.Close()
	}
	s.Flush()
}
