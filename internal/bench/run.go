package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A Task is a job, the store for it, and memory for its data: of size [Job.Memory], aligned as the store requires.
type Task struct {
	Store  backend.Store
	Memory []byte
	Job    Job

	// Abandon, if not nil, makes all outstanding requests of the store fail. It is called if the job is cut short and
	// requests do not end. By then no job of the group uses its memory any more.
	Abandon func()
}

// Run runs one job. It calls progress, if not nil, from time to time with the share of the job that is done. If ctx
// ends or a request fails, the job is cut short, and Run returns both the error and what was measured until then.
func Run(ctx context.Context, store backend.Store, memory []byte, job Job, progress func(share float64)) (*Result, error) {
	results, err := RunAll(ctx, []Task{{Store: store, Memory: memory, Job: job}}, progress)
	return results[0], err
}

// RunAll runs jobs concurrently, each on its own thread, and returns their results in order. The jobs begin together,
// and one that fails ends all. Jobs that share a store and write with Verify must have the same BlockSize and Offset.
// progress receives the progress of the first job. If ctx ends or a request fails, RunAll returns both the error and
// what was measured until then. A job that did not begin, or that read wrong data, has no result.
func RunAll(ctx context.Context, tasks []Task, progress func(share float64)) ([]*Result, error) {
	if len(tasks) == 0 {
		return nil, errors.New("no job")
	}
	g := group{begin: make(chan struct{}), over: make(chan struct{}), share: len(tasks), left: make([]bool, len(tasks))}
	g.ready.Add(len(tasks))
	g.loaded.Add(len(tasks))
	seed := rand.Uint64()
	results, errs := make([]*Result, len(tasks)), make([]error, len(tasks))
	var all sync.WaitGroup
	for i, t := range tasks {
		if t.Job.Seed == 0 {
			t.Job.Seed = max(seed, 1)
		}
		report := progress
		if i > 0 {
			report = nil
		}
		// Each ends with its job; RunAll returns after the last of them.
		all.Go(func() { results[i], errs[i] = g.run(ctx, t, uint64(i), report) })
	}
	g.ready.Wait()
	g.base = time.Now()
	close(g.begin)
	g.loaded.Wait()
	for i, t := range tasks {
		if g.left[i] && t.Abandon != nil {
			t.Abandon()
		}
	}
	close(g.over)
	all.Wait()
	return results, first(errs)
}

// first returns an original error, in preference to errors of jobs that were ended because of it.
func first(errs []error) error {
	var err error
	for _, e := range errs {
		if e != nil && (err == nil || errors.Is(err, errOther)) {
			err = e
		}
	}
	return err
}

// A group is the shared state of concurrent jobs.
type group struct {
	ready  sync.WaitGroup
	begin  chan struct{} // closed when all jobs are ready
	loaded sync.WaitGroup
	over   chan struct{} // closed when all jobs have ended and outstanding requests are abandoned
	left   []bool        // whether requests are outstanding, by job; each job writes its own before loaded
	base   time.Time     // the start of all times; set before begin
	share  int           // number of jobs
	failed atomic.Bool   // a job failed
}

var errOther = errors.New("another job failed")

func (g *group) run(ctx context.Context, t Task, index uint64, progress func(float64)) (*Result, error) {
	// A file's queue may rely on being used from one thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := g.prepare(t, index)
	if err != nil {
		g.failed.Store(true)
	}
	g.ready.Done()
	<-g.begin
	if err != nil {
		g.loaded.Done()
		<-g.over
		return nil, err
	}
	err = r.load(ctx, progress)
	if err == nil && r.written != nil {
		err = r.verify(ctx)
	}
	if err != nil {
		g.failed.Store(true)
	}
	g.left[index] = r.flying > 0
	g.loaded.Done()
	<-g.over
	err = errors.Join(err, r.queue.Close())
	var wrong *VerifyError
	if errors.As(err, &wrong) {
		return nil, err
	}
	r.result.Verified = r.verified
	return r.result, err
}

func (g *group) prepare(t Task, index uint64) (*runner, error) {
	job, err := t.Job.check(t.Store.Info(), len(t.Memory))
	if err != nil {
		return nil, err
	}
	queue, err := t.Store.NewQueue(job.Depth, nil)
	if err != nil {
		return nil, err
	}
	r := newRunner(job, t.Store.Info(), queue, t.Memory, index)
	r.group = g
	return r, nil
}

func (r *runner) failure(tag int, err error) error {
	s := &r.slots[tag]
	if s.direction == toFlush {
		return fmt.Errorf("flush: %w", err)
	}
	what := r.job.Pattern.String()
	if r.job.Pattern.Mixed() || r.job.Pattern.pairs() {
		what += ": " + s.direction.String()
	}
	return fmt.Errorf("%s of %d bytes at offset %d: %w", what, s.length, s.offset, err)
}
