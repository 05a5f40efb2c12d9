package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/test/internal/record"
)

// A client runs the workers of one process.
type client struct {
	spec    Spec
	over    atomic.Bool
	passes  atomic.Uint64
	failed  chan error
	workers sync.WaitGroup

	mu     sync.Mutex // guards what follows
	counts Counts
	out    *json.Encoder
}

// ReportEvery is the interval between reports.
const ReportEvery = 250 * time.Millisecond

// Run runs a client until the end of in.
func Run(in io.Reader, out io.Writer) error {
	c := &client{failed: make(chan error, 1), counts: Counts{Errors: map[string]uint64{}}, out: json.NewEncoder(out)}
	input := json.NewDecoder(in)
	if err := input.Decode(&c.spec); err != nil {
		return err
	}
	workers, end, err := c.open()
	if err != nil {
		return errors.Join(err, end())
	}
	for _, w := range workers {
		c.workers.Go(w.run)
	}
	c.report(Report{Ready: true})
	ended := make(chan struct{})
	go func() { // ends with the input
		_, _ = io.Copy(io.Discard, io.MultiReader(input.Buffered(), in))
		close(ended)
	}()
	tick := time.NewTicker(ReportEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.report(Report{Counts: c.now()})
			continue
		case err = <-c.failed:
			c.report(Report{Violation: err.Error(), Counts: c.now()})
		case <-ended:
		}
		c.over.Store(true)
		break
	}
	c.workers.Wait()
	select {
	case err = <-c.failed:
		c.report(Report{Violation: err.Error()})
	default:
	}
	for _, w := range workers {
		err = errors.Join(err, w.disk.close())
	}
	err = errors.Join(err, end())
	c.report(Report{Counts: c.now()})
	return err
}

// fail ends the client with an error.
func (c *client) fail(err error) {
	select {
	case c.failed <- err:
	default:
	}
	c.over.Store(true)
}

func (c *client) now() *Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := Counts{}
	n.Add(&c.counts)
	n.Passes, n.Goroutines = c.passes.Load(), runtime.NumGoroutine()
	return &n
}

func (c *client) report(r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(r) // on an error the reader is gone, and the input has ended
}

// event reports an event of a path.
func (c *client) event(e multipath.Event) {
	if e.ANA && e.Err == nil {
		return
	}
	text := fmt.Sprintf("path %v is %v", e.Path.Addr(), e.State)
	if e.Err != nil {
		text += fmt.Sprintf(": %v", e.Err)
		c.mu.Lock()
		c.counts.Errors["path: "+Kind(e.Err.Error())]++
		c.mu.Unlock()
	}
	c.report(Report{Event: text})
}

// open connects, and returns the workers and a function that disconnects.
func (c *client) open() (workers []*worker, end func() error, err error) {
	l, end := &library{}, func() error { return nil }
	if c.spec.Socket == "" {
		if l, err = connect(&c.spec, c.event); err != nil {
			return nil, end, err
		}
		end = l.close
	}
	writesAt := time.Time{}
	if c.spec.Killed {
		writesAt = time.Now().Add(c.spec.Fence)
	}
	for i := range c.spec.Spaces {
		s := &c.spec.Spaces[i]
		table, err := record.Open(s.Table, s.Number, s.Blocks)
		if err != nil {
			return nil, end, err
		}
		var n *multipath.Namespace
		if c.spec.Socket == "" {
			if n, err = l.open(s); err != nil {
				return nil, end, err
			}
		}
		for k := range s.Workers {
			w := &worker{client: c, space: s, table: table, writesAt: writesAt, first: s.First + k*(s.Count/s.Workers), count: s.Count / s.Workers,
				random: rand.New(rand.NewPCG(c.spec.Seed, uint64(i)<<32|uint64(k)))}
			if err := w.open(n, k); err != nil {
				return nil, end, err
			}
			workers = append(workers, w)
		}
	}
	return workers, end, nil
}

// open opens a worker's disk.
func (w *worker) open(n *multipath.Namespace, k int) (err error) {
	switch {
	case n == nil:
		size := int64(w.space.Blocks) * int64(w.space.BlockSize)
		w.again = func() (disk, error) {
			d, err := openNBD(w.spec.Socket, w.space.NSID, size)
			if err != nil {
				return nil, err
			}
			return d, nil
		}
		w.disk, err = w.again()
	case k%2 == 0:
		q, err := n.OpenQueue(w.spec.Depth, nil)
		if err != nil {
			return err
		}
		w.disk = &queueDisk{q}
	default:
		w.disk = newBlockingDisk(n, w.spec.Depth)
	}
	return err
}
