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

// deliveryTimeout is how long missing READ responses count in the receive budget while other queue pairs wait for it.
// It is shorter than the timeouts that consumers of the device may have, which would blame the peer for our delay.
const deliveryTimeout = 2 * time.Millisecond

// keepLimit is the number of out-of-order packets that one shard keeps.
const keepLimit = 2048

// A shard is a completion queue with its sockets, queue pairs and timers. One goroutine at a time drives it by Poll,
// Flush and Wait; other goroutines use only the mailbox.
type shard struct {
	dev   *Device
	index int
	port  udp.Port
	now   time.Duration // of this turn, as Device.clock
	rng   *rand.ChaCha8

	qps    map[rdmatransport.QPN]*queuePair
	done   rc.Completions
	store  rc.Store
	budget rc.Budget
	stats  Stats

	busy   bool // the last Poll received something
	batch  *udp.RecvBatch
	full   int // consecutive full batches
	icrc   wire.ICRC
	packet wire.Packet
	last   *queuePair // cache: most packets are for the same queue pair as the one before

	active   []*queuePair  // queue pairs that may have something to send
	again    []*queuePair  // the spare list, swapped with active on each Flush
	blocked  []*queuePair  // queue pairs that wait for the receive budget
	wroteOff time.Duration // when unblock last took budget back from other queue pairs
	timers   timerHeap
	mail     mailbox.Mailbox
	foreign  atomic.Int32 // packets from other shards in mail
	reach    reach
	tx       transmitter
	manager  *manager // shard 0 only
	tap      *tap     // nil: no capture

	// still means that nothing is received or sent and no timer fires: before Begin and after Move.
	still    bool
	exported map[rdmatransport.QPN]bool // exported queue pairs, whose packets are kept
	kept     []keptPacket
	reserved map[rdmatransport.QPN]bool // numbers of queue pairs to be adopted
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

// newQPN returns an unpredictable unused number that is steered to this shard.
func (s *shard) newQPN() rdmatransport.QPN {
	n := uint32(len(s.dev.shards))
	for {
		qpn := uint32(s.rng.Uint64()) & 0xffffff
		qpn = qpn - qpn%n + uint32(s.index)
		// 0 and 1 are management queue pairs, the highest is multicast; rxe and RNICs use numbers above 15.
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

// mostFull is the number of consecutive full batches after which timers run anyway. By then everything has been
// received that was in a socket buffer of 16 MiB at the first batch. Without it, a peer that never lets the socket
// become empty would stop all retransmissions.
const mostFull = 512

// expire runs the timers that are due. It must not run while the packets that they wait for are still in the socket,
// which holds more than one batch after a pause of this thread: a READ that is requested again after it was answered
// makes a Linux host lose its controller.
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

// ReceiveBudget implements rdmatransport.CompletionQueue. It counts payload bytes: the socket's buffer holds about a
// third of its size in packets of 1 KiB, and almost half in packets of 4 KiB.
func (s *shard) ReceiveBudget() int { return s.budget.Limit / 3 }

// activate adds q to the queue pairs that Flush asks for packets.
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

// flushActive sends what the active queue pairs have to send.
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
		clear(s.again) // drop references to closed queue pairs
	}
	s.tx.flush()
}

// flushNow sends what q has to send, at once.
func (s *shard) flushNow(q *queuePair) {
	s.reach.begin()
	defer s.reach.end()
	s.flushQP(q)
	s.tx.flush() // the memory of its packets may be freed after this
}

// unblock lets queue pairs that wait for the receive budget try again.
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

// flushQP adds all packets that q may send now.
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
		s.tx.flush() // the owner of a completion may free its memory
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

// Close implements rdmatransport.CompletionQueue. It drops remaining completions, such as those of shared receives,
// which outlive their queue pairs, so that the next owner does not get them.
func (s *shard) Close() error {
	s.end()
	s.done.Drop()
	s.dev.giveBack(s)
	return nil
}

// end closes the shard's queue pairs, which notifies their peers.
func (s *shard) end() {
	for _, q := range s.qps {
		q.Close()
	}
	s.Flush()
}
