package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
)

const storeSize = 4 << 20

func newStore(t *testing.T) *memory.Store {
	t.Helper()
	s, err := memory.New(memory.Config{Size: storeSize, BlockSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err) // a queue was left open
		}
	})
	return s
}

func job(p Pattern) Job {
	return Job{Pattern: p, BlockSize: 8192, Depth: 4, Runtime: 20 * time.Millisecond}
}

func run(t *testing.T, s backend.Store, j Job) (*Result, error) {
	t.Helper()
	return Run(t.Context(), s, backendtest.Buffer(1<<20, 4096), j, nil)
}

func TestEveryPattern(t *testing.T) {
	for p := RandRead; p <= lastPattern; p++ {
		t.Run(p.String(), func(t *testing.T) {
			s := newStore(t)
			j := job(p)
			if p.Mixed() || p.pairs() { // both must occur, however slow the machine is
				j.Runtime, j.Limit = 0, 4<<20
			}
			r, err := run(t, s, j)
			if err != nil {
				t.Fatal(err)
			}
			if r.Ops == 0 || r.IOPS() <= 0 || r.Latencies().Count != r.Ops || r.Percentile(50) <= 0 {
				t.Errorf("%d operations, %v a second, %d timed", r.Ops, r.IOPS(), r.Latencies().Count)
			}
			if j.Runtime > 0 && r.Elapsed < 15*time.Millisecond || r.Throughput() != r.IOPS()*8192 {
				t.Errorf("measured %v, %v bytes a second", r.Elapsed, r.Throughput())
			}
			for d := range Directions {
				if n := r.Sides[d].Ops(); (n > 0) != p.Does(Direction(d)) {
					t.Errorf("%d requests of direction %v", n, Direction(d))
				}
			}
			if used, _ := s.Allocated(); (used > 0) != p.Does(ToWrite) {
				t.Errorf("%d bytes of the store were written", used)
			}
			last := r.Samples[len(r.Samples)-1]
			if n := last.Ops[0] + last.Ops[1] + last.Ops[2]; n != r.Ops || last.At != r.Elapsed {
				t.Errorf("the last sample has %d of %d operations at %v of %v", n, r.Ops, last.At, r.Elapsed)
			}
		})
	}
}

func TestRangeIsKept(t *testing.T) {
	s := newStore(t)
	j := job(Write)
	j.Size, j.Runtime, j.Limit = 64<<10, 0, 256<<10
	if _, err := run(t, s, j); err != nil {
		t.Fatal(err)
	}
	if used, _ := s.Allocated(); used != 64<<10 {
		t.Errorf("%d bytes of the store were written, want %d", used, 64<<10)
	}
}

func TestVerifyPasses(t *testing.T) {
	j := job(RandWrite)
	j.Verify = true
	r, err := run(t, newStore(t), j)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verified == 0 || r.Verified > 512 {
		t.Errorf("%d blocks were compared", r.Verified)
	}
}

// liar returns one wrong byte of what it reads.
type liar struct{ *memory.Store }

type liarQueue struct {
	backend.Queue
}

func (l liar) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := l.Store.NewQueue(depth, notify)
	return liarQueue{q}, err
}

func (q liarQueue) Submit(rs []backend.Request) int {
	n := q.Queue.Submit(rs) // memory works within Submit
	for _, r := range rs[:n] {
		if r.Op == backend.OpRead && r.Offset == 64<<10 {
			r.Buf[100] ^= 1
		}
	}
	return n
}

func TestVerifyFindsWrongData(t *testing.T) {
	j := job(Write)
	j.Verify, j.Size, j.Runtime = true, 256<<10, 50*time.Millisecond
	_, err := run(t, liar{newStore(t)}, j)
	var wrong *VerifyError
	if !errors.As(err, &wrong) || wrong.Offset != 64<<10+100 || wrong.Got != wrong.Want^1 {
		t.Errorf("%v, want the wrong byte at %d", err, 64<<10+100)
	}
}

// lazy reports success without reading.
type lazy struct{ *memory.Store }

type lazyQueue struct {
	backend.Queue
}

func (l lazy) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := l.Store.NewQueue(depth, notify)
	return lazyQueue{q}, err
}

func (q lazyQueue) Submit(rs []backend.Request) int {
	rs = slices.Clone(rs)
	for i := range rs {
		if rs[i].Op == backend.OpRead {
			rs[i].Buf = make([]byte, rs[i].Length)
		}
	}
	return q.Queue.Submit(rs)
}

// TestVerifyFindsNoData: the previous content of a buffer is not taken for read data, neither for what the job has
// written nor for what an earlier one has.
func TestVerifyFindsNoData(t *testing.T) {
	s := newStore(t)
	for _, p := range []Pattern{Write, Read} {
		j := job(p)
		j.Verify, j.Size, j.Depth, j.Runtime = true, 8192, 1, 0
		j.Limit = 3 * j.Size
		var of backend.Store = lazy{s}
		if p == Read { // once, and then no more
			of = &onceQueues{Store: s}
		}
		_, err := run(t, of, j)
		if !errors.As(err, new(*VerifyError)) {
			t.Errorf("%v: %v", p, err)
		}
	}
}

// onceQueues execute the first of the reads.
type onceQueues struct{ *memory.Store }

type onceQueue struct {
	lazyQueue
	begun bool
}

func (o *onceQueues) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := o.Store.NewQueue(depth, notify)
	return &onceQueue{lazyQueue: lazyQueue{q}}, err
}

func (q *onceQueue) Submit(rs []backend.Request) int {
	if q.begun {
		return q.lazyQueue.Submit(rs)
	}
	q.begun = true
	return q.Queue.Submit(rs)
}

func TestErrorsEndTheJob(t *testing.T) {
	for _, at := range []int{0, 5, 100} {
		s := backendtest.NewFaulty(newStore(t))
		s.Inject(backendtest.Rule{Skip: at, Err: backend.ErrNoSpace})
		j := job(RandWrite)
		j.Runtime = time.Minute // the error ends it
		_, err := run(t, s, j)
		if !errors.Is(err, backend.ErrNoSpace) || !strings.Contains(err.Error(), "randwrite of 8192 bytes at offset ") {
			t.Errorf("after %d requests: %v", at, err)
		}
	}
}

func TestVerifyReportsFailedReads(t *testing.T) {
	s := backendtest.NewFaulty(newStore(t))
	s.Inject(backendtest.Rule{Ops: []backend.Op{backend.OpRead}, Err: backend.ErrFailed})
	j := job(Write)
	j.Verify = true
	if _, err := run(t, s, j); !errors.Is(err, backend.ErrFailed) {
		t.Errorf("%v, want %v", err, backend.ErrFailed)
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	j := job(RandRead)
	j.Runtime = time.Minute
	began := time.Now()
	r, err := Run(ctx, newStore(t), backendtest.Buffer(1<<20, 4096), j, nil)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if r == nil || r.Ops == 0 || r.Elapsed > time.Since(began) {
		t.Errorf("what was measured until then is lost: %v", r)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	j := job(RandRead)
	j.Ramp, j.Runtime = 100*time.Millisecond, 250*time.Millisecond
	last, calls := 0.0, 0
	began := time.Now()
	r, err := Run(t.Context(), newStore(t), backendtest.Buffer(1<<20, 4096), j, func(share float64) {
		if share < last || share > 1 {
			t.Errorf("progress went from %v to %v", last, share)
		}
		last, calls = share, calls+1
	})
	if err != nil || calls < 3 || last != 1 {
		t.Errorf("%d reports of progress, %v", calls, err)
	}
	if all := time.Since(began); r.Elapsed < 200*time.Millisecond || r.Elapsed > all-j.Ramp {
		t.Errorf("measured %v of %v: the ramp of %v counts", r.Elapsed, all, j.Ramp)
	}
}

func TestImpossibleJobs(t *testing.T) {
	for name, change := range map[string]func(*Job){
		"is not a multiple":    func(j *Job) { j.BlockSize = 512 },
		"hold no request":      func(j *Job) { j.Size = 4096 },
		"depth 0":              func(j *Job) { j.Depth = 0 },
		"depth 5000":           func(j *Job) { j.Depth = 5000 },
		"more than the":        func(j *Job) { j.Depth = 1000 },
		"runtime 0s":           func(j *Job) { j.Runtime = 0 },
		"use randwrite":        func(j *Job) { j.Pattern, j.Verify = Trim, true },
		"the second is":        func(j *Job) { j.MaxBlock = 4096 },
		"offset 512":           func(j *Job) { j.Offset = 512 },
		"offset 4194304":       func(j *Job) { j.Offset = storeSize },
		"101 % of reads":       func(j *Job) { j.ReadShare = 101 },
		"must not be negative": func(j *Job) { j.Rate[ToWrite] = -1 },
		"block size 0 is not ": func(j *Job) { j.BlockSize = 0 },
		"block size 6144 is ":  func(j *Job) { j.Blocks[ToRead].Least = 6144 },
		"from 8192 to 4096":    func(j *Job) { j.Blocks[ToRead] = Sizes{Least: 8192, Most: 4096} },
		"multiples of the":     func(j *Job) { j.Blocks[ToRead].Split = []Share{{8192, 50}, {12288, 50}} },
		"90 percent":           func(j *Job) { j.Blocks[ToRead].Split = []Share{{8192, 40}, {16384, 50}} },
		"same block sizes":     func(j *Job) { j.Pattern, j.Blocks[ToTrim].Least = TrimWrite, 16384 },
	} {
		j := job(RandRead)
		change(&j)
		if _, err := run(t, newStore(t), j); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}

func TestParsePattern(t *testing.T) {
	for p := RandRead; p <= lastPattern; p++ {
		if got, err := ParsePattern(p.String()); err != nil || got != p {
			t.Errorf("ParsePattern(%q) = %v, %v", p, got, err)
		}
	}
	if p, err := ParsePattern("readwrite"); err != nil || p != ReadWrite {
		t.Errorf("readwrite is %v, %v", p, err)
	}
	if _, err := ParsePattern("wr"); err == nil {
		t.Error("wr is taken")
	}
}

// TestNoAllocation: what a job allocates does not grow with its number of requests.
func TestNoAllocation(t *testing.T) {
	for name, j := range map[string]Job{
		"randread": job(RandRead),
		"mixed":    {Pattern: RandRW, BlockSize: 4096, MaxBlock: 16384, Depth: 4, Runtime: time.Minute, FlushEvery: 3},
		"verified": {Pattern: RandWrite, BlockSize: 4096, Depth: 4, Runtime: time.Minute, Verify: true},
		"paced":    {Pattern: Read, BlockSize: 4096, Depth: 4, Runtime: time.Minute, Rate: [Directions]int64{4096e6}},
		"paused":   {Pattern: RandTrimWrite, BlockSize: 4096, Depth: 4, Runtime: time.Minute, Think: time.Nanosecond, ThinkEvery: 4},
		"pairs":    {Pattern: RandTrimWrite, BlockSize: 4096, Depth: 4, Runtime: time.Minute},
		"split": {Pattern: RandRW, BlockSize: 4096, Depth: 4, Runtime: time.Minute,
			Blocks: [Directions]Sizes{{Split: []Share{{4096, 30}, {8192, 70}}}, {Least: 8192, Most: 16384}}},
		"draw again": {Pattern: RandRead, BlockSize: 4096, Depth: 4, Runtime: time.Minute, RepeatAny: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			j, err := j.check(s.Info(), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			q, err := s.NewQueue(4, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			r := newRunner(j, s.Info(), q, backendtest.Buffer(1<<20, 4096), 0)
			r.group = &group{base: time.Now(), share: 1}
			r.begin()
			for tag := range j.Depth {
				r.next(tag, 0)
			}
			r.release(r.now())
			r.submit()
			n := testing.AllocsPerRun(100, func() {
				now := r.now()
				r.complete(r.results[:q.Poll(r.results)], now)
				r.release(now)
				r.submit()
				r.samples.take(r.sample(now))
			})
			if n != 0 || r.err != nil || r.result.Latencies().Count == 0 {
				t.Errorf("%v allocations a turn, %v", n, r.err)
			}
			for !q.Idle() {
				q.Poll(r.results)
			}
		})
	}
}
