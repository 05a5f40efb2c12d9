package gateways

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
	"github.com/nvmeof-go/nvmeof/test/internal/record"
)

const (
	nqn       = "nqn.2026-11.org.example:gateways"
	spaces    = 3   // namespaces
	blocks    = 512 // of each namespace
	blockSize = 4096
	workers   = 8 // on each namespace
)

// A client is the host with its workers.
type client struct {
	sub     *multipath.Subsystem
	workers []*worker
	over    atomic.Bool
	all     sync.WaitGroup

	mu       sync.Mutex // guards what follows
	longest  time.Duration
	requests int
	errors   []error
	stale    map[record.Block]int // stale reads of each block
	firsts   []error              // error of the first stale read of each block
}

// A worker reads and writes blocks of its own, one at a time.
type worker struct {
	*client
	n      *multipath.Namespace
	table  *record.Table
	first  int
	random *rand.Rand
	ended  atomic.Int64 // when the last completed request began: Unix time in nanoseconds
}

// connect returns a client whose workers do not run yet.
func connect(t *testing.T, dir string, seed uint64, paths []netip.Addr) *client {
	device, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(address(100))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { device.Close() })
	h, err := host.New(host.Config{Device: device})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	cfg := multipath.Config{NQN: nqn, Wait: true, Policy: multipath.RoundRobin}
	for _, p := range paths {
		cfg.Paths = append(cfg.Paths, multipath.PathConfig{Host: h, Options: host.Options{Traddr: p, KeepAliveTmo: 2 * time.Second, NrIOQueues: 1},
			Timers: multipath.Timers{ReconnectDelay: time.Second}})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := &client{stale: map[record.Block]int{}}
	if c.sub, err = multipath.Connect(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.sub.Close() })
	for id := 1; id <= spaces; id++ {
		n, err := c.sub.Namespace(ctx, capsule.NSID(id))
		for err != nil && ctx.Err() == nil { // the configuration may not be there yet
			time.Sleep(100 * time.Millisecond)
			n, err = c.sub.Namespace(ctx, capsule.NSID(id))
		}
		if err != nil {
			t.Fatal(err)
		}
		table, err := record.Open(filepath.Join(dir, fmt.Sprintf("table%d", id)), uint32(id), blocks)
		if err != nil {
			t.Fatal(err)
		}
		for i := range workers {
			c.workers = append(c.workers, &worker{client: c, n: n, table: table, first: i * blocks / workers, random: rand.New(rand.NewPCG(seed, uint64(id*workers+i)))})
		}
	}
	return c
}

// work runs the workers until stop is called.
func (c *client) work() {
	c.over.Store(false)
	for _, w := range c.workers {
		c.all.Go(w.run)
	}
}

// stop ends the workers. It returns false if outstanding requests do not end.
func (c *client) stop() bool {
	c.over.Store(true)
	ended := make(chan struct{})
	go func() { // ends with the workers, or the test
		c.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-time.After(serveTime):
		return false
	}
}

func (w *worker) run() {
	p := make([]byte, blockSize)
	for !w.over.Load() {
		block := w.first + w.random.IntN(blocks/workers)
		switch w.random.IntN(16) {
		case 0:
			w.do("flush", block, w.n.Flush)
		case 1, 2, 3, 4, 5, 6, 7:
			number := w.table.Begin(p, block)
			if w.do("write", block, func() error { return second(w.n.WriteAt(p, int64(block)*blockSize)) }) {
				w.table.Acknowledged(block, number, false)
			}
		default:
			w.read(p, block)
		}
		time.Sleep(time.Duration(w.random.IntN(4)) * time.Millisecond) // leaves processor time to other processes
	}
}

// read reads a block, and checks its content.
func (w *worker) read(p []byte, block int) {
	floor := w.table.Floor(block)
	if !w.do("read", block, func() error { return second(w.n.ReadAt(p, int64(block)*blockSize)) }) {
		return
	}
	err := w.table.Check(p, block, floor)
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := record.Block{Space: uint32(w.n.ID()), Index: uint64(block)}
	if w.stale[at]++; w.stale[at] == 1 {
		w.firsts = append(w.firsts, err)
	}
}

// readAll reads every block of the worker.
func (w *worker) readAll() {
	p := make([]byte, blockSize)
	for i := range blocks / workers {
		w.read(p, w.first+i)
	}
}

func second(_ int, err error) error { return err }

// do makes one request, and reports whether it has succeeded.
func (w *worker) do(what string, block int, f func() error) bool {
	began := time.Now()
	err := f()
	w.ended.Store(began.UnixNano())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, time.Since(began))
	w.requests++
	if err != nil {
		w.errors = append(w.errors, fmt.Errorf("%s of block %d of namespace %d: %w", what, block, w.n.ID(), err))
	}
	return err == nil
}

// since reports whether every worker has completed a request that it began after t.
func (c *client) since(t time.Time) bool {
	for _, w := range c.workers {
		if w.ended.Load() <= t.UnixNano() {
			return false
		}
	}
	return true
}

// live returns an error unless every path is live, with all namespaces, and each namespace is optimized on one path.
func (c *client) live() error {
	optimized := map[capsule.NSID]int{}
	var errs []error
	for _, p := range c.sub.Paths() {
		s := p.Status()
		if s.State != multipath.StateLive {
			errs = append(errs, fmt.Errorf("path %v is %v: %w", s.Addr, s.State, s.Err))
		}
		for id, state := range s.States {
			if state == capsule.ANAOptimized {
				optimized[id]++
			}
		}
	}
	for id := range capsule.NSID(spaces) {
		if n := optimized[id+1]; n != 1 {
			errs = append(errs, fmt.Errorf("namespace %d is optimized on %d paths", id+1, n))
		}
	}
	return errors.Join(errs...)
}

// count moves what was counted since the last call to a round.
func (c *client) count(r *round) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.longest, r.requests, r.errors, r.stale = c.longest, c.requests, c.errors, c.firsts
	c.longest, c.requests, c.errors, c.firsts = 0, 0, nil, nil
}
