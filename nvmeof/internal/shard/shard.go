package shard

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/latency"
	"github.com/nvmeof-go/nvmeof/internal/yield"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/list"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// ErrClosed says that the shard has been closed.
var ErrClosed = errors.New("shard is closed")

// Config describes a shard. A zero field takes the default.
type Config struct {
	// CQ is required. The shard polls it and closes it at the end.
	CQ rdmatransport.CompletionQueue

	Polling nvmeof.Polling
	Spin    time.Duration // PollAdaptive, at least: default 50 µs; up to 8 times that where it pays, 16 times while an operation is out (Expect)

	// Dedicated keeps the loop on the resident goroutine, and that on its own OS
	// thread while it is awake; nobody else can hold it.
	Dedicated bool

	// Arena is the size in bytes of the buffer arena: default 64 MiB, rounded up
	// to whole mebibytes. Memory that was never used costs address space only.
	Arena int
}

const (
	defaultSpin  = 50 * time.Microsecond
	defaultArena = 64 << 20
)

func (c *Config) spin() int64 {
	switch {
	case c.Polling == nvmeof.PollNever:
		return 0
	case c.Spin > 0:
		return int64(c.Spin)
	}
	return int64(defaultSpin)
}

func (c *Config) arena() int {
	if c.Arena > 0 {
		return c.Arena
	}
	return defaultArena
}

// A Shard is one loop and what it owns. See the package comment for who may
// call what.
type Shard struct {
	cq      rdmatransport.CompletionQueue
	polling nvmeof.Polling
	spin    spinner
	cs      [completionBatch]rdmatransport.Completion

	slots   []*Slot // by index
	vacant  []uint32
	retired []uint32 // vacant once the completions at hand are dispatched
	retry   slotList
	flush   slotList
	pollers []Poller
	timers  timerHeap
	arena   *Arena
	arenas  []*Arena // all that it serves, its own first
	budget  Budget
	slow    Budget
	lent    list.List[Claim] // of consumers who have taken something of either, and can be asked for it
	batch   Batch
	drain   bool // a turn takes all that has arrived

	now      int64 // the completion queue's clock in this turn
	onTurn   func(now int64)
	onHeldUp func()    // nil: nobody asks
	looked   time.Time // when lookHeldUp was called last
	wall     time.Time // the same by the wall clock alone
	yielder  yield.Loop
	stats    Stats
	useful   bool // the last turn found something to do, and the next one follows at once
	vain     int  // turns since the last useful one

	mail     mailbox
	kick     atomic.Bool // Wake was called since the turn began
	sleeping atomic.Bool

	lease lease
	state atomic.Uint32
	ended chan struct{}
}

// completionBatch is how many completions are taken per turn: enough to spread
// the cost of a poll, few enough that the first is answered soon.
const completionBatch = 64

// States of a shard, in order.
const (
	stateNew uint32 = iota
	stateRunning
	stateClosing
	stateClosed
)

// OnTurn has f called at the beginning of each turn. Before Start, or in the loop.
func (s *Shard) OnTurn(f func(now int64)) { s.onTurn = f }

// OnHeldUp has f called where half a second has passed since the turn before, or since the turn began: before
// anything that has arrived is looked at, and before pollers are polled. The loop may have slept, or was held
// up, also by a machine that has slept. Before Start.
func (s *Shard) OnHeldUp(f func()) { s.onHeldUp = f }

// Stats count what the loop did.
type Stats struct {
	Busy        time.Duration     // in turns that found something to do
	Loop        latency.Histogram // how long each of them took
	Turns       uint64
	Useful      uint64 // turns that found something to do
	Sleeps      uint64
	Completions uint64
	Messages    uint64 // functions queued by Do
	Handovers   uint64 // times the resident gave the loop to a waiting caller
}

// New returns a shard that does not run yet: until Start the caller owns it.
func New(cfg Config) (*Shard, error) {
	if cfg.CQ == nil {
		return nil, errors.New("shard: Config.CQ is missing")
	}
	arena, err := NewArena(cfg.arena())
	if err != nil {
		return nil, err
	}
	s := &Shard{
		cq: cfg.CQ, polling: cfg.Polling, arena: arena, arenas: []*Arena{arena},
		ended: make(chan struct{}), looked: time.Now(),
	}
	s.wall = s.looked.Round(0)
	s.spin.init(cfg.spin())
	s.budget.open(s, cfg.CQ.ReceiveBudget())
	s.slow.open(s, s.budget.limit/4)
	s.lease.init(cfg.Dedicated)
	return s, nil
}

// Start starts the resident goroutine.
func (s *Shard) Start() {
	if s.state.CompareAndSwap(stateNew, stateRunning) {
		s.lease.holder.Store(holderResident)
		go s.reside() // ends in Close
	}
}

// Close ends the loop, fails what still waits with [ErrClosed] and frees the
// completion queue and the arena. Queue pairs and registrations must be gone by
// then. Any goroutine but the loop's owner may call it.
func (s *Shard) Close() error {
	if s.state.CompareAndSwap(stateNew, stateClosed) {
		return s.free()
	}
	if !s.state.CompareAndSwap(stateRunning, stateClosing) {
		<-s.ended
		return nil
	}
	s.summon()
	<-s.ended
	return s.free()
}

func (s *Shard) free() error {
	return errors.Join(s.cq.Close(), s.arena.Close())
}

func (s *Shard) closing() bool { return s.state.Load() >= stateClosing }

// CQ is the completion queue, for creating queue pairs.
func (s *Shard) CQ() rdmatransport.CompletionQueue { return s.cq }

// Arena is the shard's store of buffers.
func (s *Shard) Arena() *Arena { return s.arena }

// AddArena has the loop serve the waiters of one more arena in each turn. It stays the
// caller's, to be closed after the shard.
func (s *Shard) AddArena(a *Arena) { s.arenas = append(s.arenas, a) }

// Budget bounds the bytes that peers may have in flight towards this shard.
func (s *Shard) Budget() *Budget { return &s.budget }

// SlowBudget is a smaller one beside Budget, for peers that are not known yet, or have
// kept others waiting: those wait for each other, and nobody else for them.
func (s *Shard) SlowBudget() *Budget { return &s.slow }

// Now is the clock of the current turn: nanoseconds since an arbitrary start.
func (s *Shard) Now() int64 { return s.now }

// Stats returns the counters.
func (s *Shard) Stats() Stats { return s.stats }
