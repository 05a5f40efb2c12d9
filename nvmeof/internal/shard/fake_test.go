package shard

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A fakeCQ is a completion queue that completes what the test says and blocks on a channel, so that it works in a
// synctest bubble.
type fakeCQ struct {
	mu      sync.Mutex
	done    []rdmatransport.Completion
	wake    chan struct{}
	start   time.Time
	now     int64
	polls   int
	flushes int
	waits   int
	budget  int
	closed  bool
}

func newFakeCQ() *fakeCQ { return &fakeCQ{wake: make(chan struct{}, 1), start: time.Now()} }

func (c *fakeCQ) complete(ids ...uint64) {
	c.mu.Lock()
	for _, id := range ids {
		c.done = append(c.done, rdmatransport.Completion{ID: id})
	}
	c.mu.Unlock()
	c.Wake()
}

func (c *fakeCQ) Poll(cs []rdmatransport.Completion) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls++
	c.now = int64(time.Since(c.start))
	n := copy(cs, c.done)
	c.done = c.done[:copy(c.done, c.done[n:])]
	return n
}

func (c *fakeCQ) Flush() { c.flushes++ }

func (c *fakeCQ) Due() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.done) > 0 {
		return 0
	}
	return -1
}

func (c *fakeCQ) Wait(d int64) {
	c.mu.Lock()
	ready := len(c.done) > 0
	c.waits++
	c.mu.Unlock()
	switch {
	case ready, d == 0:
	case d < 0:
		<-c.wake
	default:
		select {
		case <-c.wake:
		case <-time.After(time.Duration(d)):
		}
	}
}

func (c *fakeCQ) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *fakeCQ) Busy() bool         { return false }
func (c *fakeCQ) Watch(int) error    { return errors.New("no descriptors") }
func (c *fakeCQ) Now() int64         { return c.now }
func (c *fakeCQ) ReceiveBudget() int { return c.budget }
func (c *fakeCQ) Close() error       { c.closed = true; return nil }

// newShard returns a shard that never spins and is closed with the test.
func newShard(t *testing.T, cfg Config) (*Shard, *fakeCQ) {
	t.Helper()
	cq := newFakeCQ()
	if cfg.Polling == nvmeof.PollAdaptive {
		cfg.Polling = nvmeof.PollNever
	}
	cfg.CQ = cq
	if cfg.Arena == 0 {
		cfg.Arena = 1 << 20
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if !cq.closed {
			t.Error("Close left the completion queue open")
		}
	})
	return s, cq
}

// recorder is a consumer that records its calls.
type recorder struct {
	slot     Slot
	log      *[]string
	name     string
	complete func(tag uint32)
	flush    func()
	retry    func()
}

func (r *recorder) note(s string) {
	if r.log != nil {
		*r.log = append(*r.log, r.name+s)
	}
}

func (r *recorder) Complete(_ *rdmatransport.Completion, tag uint32) {
	r.note("complete")
	if r.complete != nil {
		r.complete(tag)
	}
}

func (r *recorder) Retry() {
	r.note("retry")
	if r.retry != nil {
		r.retry()
	}
}

func (r *recorder) Flush() {
	r.note("flush")
	if r.flush != nil {
		r.flush()
	}
}
