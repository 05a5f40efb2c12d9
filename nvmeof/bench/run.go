package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
)

// runner is a job in progress. It allocates nothing while it measures.
type runner struct {
	job   Job
	queue backend.Queue
	yield shard.Yielder

	buffers [][]byte // by tag
	blocks  []int64  // by tag: which is in flight
	started []time.Time
	batch   []backend.Request
	results []backend.Result

	random *rand.Rand
	next   int64 // sequential: the next block

	content *content // of what is written, if that is to be verified
	latency *hdrhistogram.Histogram
	ops     uint64
	flying  int
	err     error
}

// Limits of what a histogram holds, in nanoseconds.
const (
	shortest = 1
	longest  = int64(time.Minute)
	digits   = 3
)

// Run runs a job. Its data is in memory, Depth times BlockSize bytes at least,
// aligned as the store wants. progress, if not nil, is told now and then which
// share of the time has passed. When ctx ends the job is cut short.
func Run(ctx context.Context, store backend.Store, memory []byte, job Job, progress func(share float64)) (*Result, error) {
	job, err := job.check(store.Info(), len(memory))
	if err != nil {
		return nil, err
	}
	// A file's queue may have promised to stay on one thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	queue, err := store.NewQueue(job.Depth, nil)
	if err != nil {
		return nil, err
	}
	r := newRunner(job, queue, memory)
	elapsed, err := r.load(ctx, progress)
	if err == nil && job.Verify {
		err = r.verify(ctx)
	}
	if err = errors.Join(err, queue.Close()); err != nil {
		return nil, err
	}
	return &Result{Job: job, Ops: r.ops, Elapsed: elapsed, Latency: r.latency, Verified: r.verified()}, nil
}

func newRunner(job Job, queue backend.Queue, memory []byte) *runner {
	r := &runner{
		job: job, queue: queue,
		blocks:  make([]int64, job.Depth),
		started: make([]time.Time, job.Depth),
		batch:   make([]backend.Request, 0, job.Depth),
		results: make([]backend.Result, job.Depth),
		random:  rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		latency: hdrhistogram.New(shortest, longest, digits),
	}
	for i := range job.Depth {
		b := memory[i*job.BlockSize:][:job.BlockSize:job.BlockSize]
		r.buffers = append(r.buffers, b)
		if job.Pattern.Writes() {
			noise(b, r.random.Uint64())
		}
	}
	if job.Verify {
		r.content = newContent(job, r.random.Uint64())
	}
	return r
}

// load keeps requests in flight until the time is over, and returns how long it
// measured.
func (r *runner) load(ctx context.Context, progress func(float64)) (time.Duration, error) {
	begin := time.Now()
	measured := begin.Add(r.job.Ramp)
	deadline, last, tick := measured.Add(r.job.Runtime), begin, begin
	for tag := range r.job.Depth {
		r.prepare(tag, begin)
	}
	r.submit()
	for idle := 0; r.flying > 0; {
		n := r.poll(idle)
		if idle++; n == 0 && idle%1024 != 0 {
			continue
		}
		if n > 0 {
			idle = 0
		}
		now := time.Now()
		r.complete(r.results[:n], now, now.After(measured), now.Before(deadline))
		if n > 0 {
			last = now
		}
		if now.After(tick) {
			tick = now.Add(100 * time.Millisecond)
			if ctx.Err() != nil && r.err == nil {
				r.err = context.Cause(ctx)
			}
			if progress != nil {
				progress(min(1, now.Sub(begin).Seconds()/deadline.Sub(begin).Seconds()))
			}
		}
	}
	if progress != nil {
		progress(1)
	}
	return last.Sub(measured), r.err
}

// Who waits for a file must not keep a processor for good: the kernel may need it to
// finish the very writes that are waited for, and does not always take it from a
// thread that polls.
const (
	// restless is how many polls in vain, some 100 µs, come before a wait in a queue
	// that sleeps when that pays.
	restless = 200
	// stubborn is how many, some milliseconds, come before a sleep where there is
	// nothing to wait in.
	stubborn = 20000
)

// poll looks for results, after that many polls in vain.
func (r *runner) poll(idle int) int {
	n := r.queue.Poll(r.results)
	r.yield.Turn(n > 0)
	if n > 0 || idle < restless {
		return n
	}
	if q, ok := r.queue.(interface{ Wait() error }); ok {
		_ = q.Wait() // what is wrong, the next poll tells
		return r.queue.Poll(r.results)
	}
	if idle%stubborn == 0 {
		time.Sleep(time.Microsecond)
	}
	return n
}

// complete takes results and, if there is time for it, submits what comes next.
func (r *runner) complete(results []backend.Result, now time.Time, count, again bool) {
	for _, res := range results {
		tag := int(res.Tag)
		r.flying--
		if res.Err != nil && r.err == nil {
			r.err = r.failure(tag, res.Err)
		}
		if count {
			r.ops++
			_ = r.latency.RecordValue(min(longest, int64(now.Sub(r.started[tag])))) // cannot be out of range
		}
		if again && r.err == nil {
			r.prepare(tag, now)
		}
	}
	if len(r.batch) > 0 {
		r.submit()
	}
}

func (r *runner) failure(tag int, err error) error {
	return fmt.Errorf("%v of %d bytes at offset %d: %w", r.job.Pattern, r.job.BlockSize, r.blocks[tag]*int64(r.job.BlockSize), err)
}

// prepare adds the next request, in the slot of a tag, to the batch.
func (r *runner) prepare(tag int, now time.Time) {
	block := r.next
	if r.job.Pattern.random() {
		block = r.random.Int64N(r.job.blocks())
	} else if r.next++; r.next == r.job.blocks() {
		r.next = 0
	}
	op := backend.OpRead
	if r.job.Pattern.Writes() {
		op = backend.OpWrite
		if r.content != nil {
			r.content.write(block, r.buffers[tag])
		}
	}
	r.add(op, tag, block)
	r.started[tag] = now
}

func (r *runner) add(op backend.Op, tag int, block int64) {
	size := int64(r.job.BlockSize)
	r.blocks[tag] = block
	r.batch = append(r.batch, backend.Request{Tag: uint64(tag), Op: op, Offset: block * size, Length: size, Buf: r.buffers[tag]})
}

// submit hands the batch over. A queue takes all, since no more than its depth
// are in flight.
func (r *runner) submit() {
	n := r.queue.Submit(r.batch)
	if r.flying += n; n < len(r.batch) && r.err == nil {
		r.err = fmt.Errorf("the store's queue took %d of %d requests", n, len(r.batch))
	}
	r.batch = r.batch[:0]
}
