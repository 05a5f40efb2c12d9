package cm

import (
	"container/list"
	"errors"
	"math"
	"math/bits"
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Never is the deadline of an engine that has none.
const Never = time.Duration(math.MaxInt64)

// Errors for wrong use by the caller, or for a connection that ended before the call.
var (
	ErrGone        = errors.New("cm: the connection is in the wrong state for this call")
	ErrPrivateData = errors.New("cm: too much private data")
	ErrAddress     = errors.New("cm: the addresses are invalid or of different families")
	ErrPathMTU     = errors.New("cm: no such path MTU")
)

// An Engine manages the connections of one endpoint. It must be used by one goroutine at a time.
type Engine struct {
	Counters Counters

	cfg       Config
	addr      netip.Addr // cfg.Addr without a zone
	listening map[wire.ServiceID]struct{}

	// conns has every connection. remoteIDs has those whose peer's ID is known; of two with the same ID, the newer.
	// remoteQPNs has those among them that are or were established and are not in time-wait.
	conns      map[wire.CommID]*conn
	remoteIDs  map[remoteID]*conn
	remoteQPNs map[remoteQPN]*conn

	halfOpen        list.List          // *conn, oldest first: begun by peers and not confirmed
	halfOpenPerPeer map[netip.Addr]int // by OriginOf

	limiter limiter
	timers  timers
	events  queue[Event]
	sends   queue[outgoing]
	psn     wire.PSN
}

// New returns an engine without listeners.
func New(cfg Config) *Engine {
	cfg.setDefaults()
	return &Engine{
		cfg:             cfg,
		addr:            cfg.Addr.WithZone(""),
		psn:             cfg.FirstPSN,
		listening:       map[wire.ServiceID]struct{}{},
		conns:           map[wire.CommID]*conn{},
		remoteIDs:       map[remoteID]*conn{},
		remoteQPNs:      map[remoteQPN]*conn{},
		halfOpenPerPeer: map[netip.Addr]int{},
		limiter:         newLimiter(),
	}
}

// Listen makes requests for the service produce an EventRequest.
func (e *Engine) Listen(s wire.ServiceID) { e.listening[s] = struct{}{} }

// Unlisten makes further requests for the service be rejected. Those that have arrived must still be answered.
func (e *Engine) Unlisten(s wire.ServiceID) { delete(e.listening, s) }

// Connections returns the number of communication IDs in use.
func (e *Engine) Connections() int { return len(e.conns) }

// NextEvent removes and returns the oldest event.
func (e *Engine) NextEvent() (Event, bool) { return e.events.take() }

// NextSend removes and returns the oldest packet to send.
func (e *Engine) NextSend() (Send, bool) {
	out, ok := e.sends.take()
	if !ok {
		return Send{}, false
	}
	s := Send{To: out.to, TrafficClass: out.tclass}
	s.Packet = wire.Packet{
		Opcode: wire.UDSendOnly, PKey: wire.DefaultPKey, DestQPN: wire.CMQPN, PSN: e.psn,
		DETH:    wire.DETH{QKey: wire.CMQKey, SrcQPN: wire.CMQPN},
		Payload: out.mad[:],
	}
	e.psn = e.psn.Add(1)
	e.Counters.Sent++
	return s, true
}

// Deadline returns when Timeout must be called, or Never.
func (e *Engine) Deadline() time.Duration {
	if len(e.timers) == 0 {
		return Never
	}
	return e.timers[0].deadline
}

// Timeout handles all timers that are due.
func (e *Engine) Timeout(now time.Duration) {
	for len(e.timers) > 0 && e.timers[0].deadline <= now {
		e.expire(now, e.timers[0])
	}
}

// newID returns an unused random communication ID.
func (e *Engine) newID() wire.CommID {
	for {
		id := wire.CommID(e.cfg.Rand())
		if _, used := e.conns[id]; id != 0 && !used {
			return id
		}
	}
}

// transaction returns the ID of transactions that we start for a connection. It is built as Linux does, so that
// recorded exchanges can be compared.
func (e *Engine) transaction(id wire.CommID) uint64 {
	return uint64(e.cfg.TransactionHigh)<<32 | uint64(bits.ReverseBytes32(uint32(id)))
}

func (e *Engine) emit(ev Event) { e.events.put(ev) }

// An outgoing message waits for NextSend.
type outgoing struct {
	to     netip.Addr
	tclass uint8
	mad    *wire.MAD
}

func (e *Engine) send(to netip.Addr, tclass uint8, m *wire.MAD) {
	e.sends.put(outgoing{to, tclass, m})
}

// maxIdleQueue is the maximum capacity, in items, that an empty queue keeps.
const maxIdleQueue = 256

// A queue is a FIFO queue.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) put(v T) { q.items = append(q.items, v) }

func (q *queue[T]) take() (T, bool) {
	var zero T
	if q.head == len(q.items) {
		return zero, false
	}
	v := q.items[q.head]
	q.items[q.head] = zero
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		if cap(q.items) > maxIdleQueue {
			q.items = nil // grown by a flood
		}
	}
	return v, true
}
