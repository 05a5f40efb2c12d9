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

// ErrClosed is returned once the shard is closed.
var ErrClosed = errors.New("shard is closed")

// Config configures a shard. A zero field selects the default.
type Config struct {
	// CQ is required. The shard polls it and closes it at the end.
	CQ rdmatransport.CompletionQueue

	Polling nvmeof.Polling
	Spin    time.Duration // PollAdaptive, at least: default 50 µs; up to 8 times that where it pays, 16 times while an operation is out (Expect)

	// Dedicated keeps the loop on the resident goroutine, which keeps its OS thread while it is awake. No other
	// goroutine can hold the loop.
	Dedicated bool

	// Arena is the size of the buffer arena in bytes, rounded up to whole mebibytes; default 64 MiB. Memory that was
	// never used costs only address space.
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

// A Shard is one loop and what it owns. The package comment says which goroutines may call which methods.
type Shard struct {
	cq      rdmatransport.CompletionQueue
	polling nvmeof.Polling
	spin    spinner
	cs      [completionBatch]rdmatransport.Completion

	slots   []*Slot // by index
	vacant  []uint32
	retired []uint32 // vacant once the current completions are dispatched
	retry   slotList
	flush   slotList
	pollers []Poller
	timers  timerHeap
	arena   *Arena
	arenas  []*Arena // all arenas that it serves, its own first
	budget  Budget
	slow    Budget
	lent    list.List[Claim] // claims of consumers that have taken bytes of either budget and can be asked for them
	batch   Batch
	drain   bool // a turn takes everything that has arrived

	now      int64 // the completion queue's clock in this turn
	onTurn   func(now int64)
	onHeldUp func()    // may be nil
	looked   time.Time // when checkHeldUp was called last
	wall     time.Time // the same by the wall clock alone
	yielder  yield.Loop
	stats    Stats
	useful   bool // the last turn found work, and the next one follows at once
	vain     int  // turns since the last one that found work

	mail     mailbox
	kick     atomic.Bool // Wake was called since the turn began
	sleeping atomic.Bool

	lease lease
	state atomic.Uint32
	ended chan struct{}
}

// completionBatch is how many completions are taken per turn: enough to spread the cost of a poll, and few enough that
// the first is answered soon.
const completionBatch = 64

// States of a shard, in order.
const (
	stateNew uint32 = iota
	stateRunning
	stateClosing
	stateClosed
)

// OnTurn sets a function that is called at the beginning of each turn. Call it before Start, or in the loop.
func (s *Shard) OnTurn(f func(now int64)) { s.onTurn = f }

// OnHeldUp sets a function that is called when half a second has passed since the previous turn, or since the current
// turn began. It is called before arrived completions are handled and before pollers are polled. The loop may have
// slept, or may have been held up, for example because the machine has slept. Call OnHeldUp before Start.
func (s *Shard) OnHeldUp(f func()) { s.onHeldUp = f }

// Stats counts what the loop did.
type Stats struct {
	Busy        time.Duration     // time in turns that found work
	Loop        latency.Histogram // the duration of each of them
	Turns       uint64
	Useful      uint64 // turns that found work
	Sleeps      uint64
	Completions uint64
	Messages    uint64 // functions queued by Do
	Handovers   uint64 // times that the resident gave the loop to a waiting caller
}

// New returns a shard that does not run yet. The caller owns it until Start.
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

// Close ends the loop, fails outstanding waits with [ErrClosed], and frees the completion queue and the arena. Queue
// pairs and memory regions must be closed first. Any goroutine except the loop's owner may call it.
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

// CQ returns the completion queue, for creating queue pairs.
func (s *Shard) CQ() rdmatransport.CompletionQueue { return s.cq }

// Arena returns the shard's buffer arena.
func (s *Shard) Arena() *Arena { return s.arena }

// AddArena makes the loop serve the waiters of another arena in each turn. The caller still owns the arena and closes
// it after the shard.
func (s *Shard) AddArena(a *Arena) { s.arenas = append(s.arenas, a) }

// Budget returns the budget for the bytes that peers may have in flight towards this shard.
func (s *Shard) Budget() *Budget { return &s.budget }

// SlowBudget returns a smaller, separate budget for peers that are not admitted yet or that have kept others waiting.
// Such peers wait only for each other, and no other peer waits for them.
func (s *Shard) SlowBudget() *Budget { return &s.slow }

// Now returns the clock of the current turn in nanoseconds since an arbitrary start.
func (s *Shard) Now() int64 { return s.now }

// Stats returns the counters.
func (s *Shard) Stats() Stats { return s.stats }
