package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// recorder records what was submitted.
type recorder struct {
	backend.Store
	seen *[]backend.Request
}

type recorderQueue struct {
	backend.Queue
	seen *[]backend.Request
}

func (s recorder) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := s.Store.NewQueue(depth, notify)
	return recorderQueue{q, s.seen}, err
}

func (q recorderQueue) Submit(rs []backend.Request) int {
	*q.seen = append(*q.seen, rs...)
	return q.Queue.Submit(rs)
}

func record(t *testing.T, j Job) ([]backend.Request, *Result) {
	t.Helper()
	var seen []backend.Request
	r, err := run(t, recorder{newStore(t), &seen}, j)
	if err != nil {
		t.Fatal(err)
	}
	return seen, r
}

// TestPermutation: each number once, and then each once again.
func TestPermutation(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 7, 8, 9, 100, 1000, 4096, 5000} {
		p := newPermutation(n, rand.New(rand.NewPCG(n, 1)))
		inOrder := 0
		for range 3 {
			seen, last := make([]bool, n), uint64(0)
			for range n {
				x := p.next()
				if x >= n || seen[x] {
					t.Fatalf("below %d: %d is out of range or there twice", n, x)
				}
				seen[x] = true
				if x == last+1 {
					inOrder++
				}
				last = x
			}
		}
		if n >= 100 && inOrder > 60 {
			t.Errorf("below %d: %d numbers follow their predecessor", n, inOrder)
		}
	}
}

// TestLimit: exactly that many bytes, each block of the range once.
func TestLimit(t *testing.T) {
	for _, p := range []Pattern{RandRead, Read, RandTrim, RandRW} {
		j := job(p)
		j.Runtime, j.Offset, j.Size, j.Limit = 0, 1<<20, 2<<20, 2<<20
		seen, r := record(t, j)
		times := map[int64]int{}
		for _, q := range seen {
			times[q.Offset]++
			if q.Offset < 1<<20 || q.Offset >= 3<<20 || times[q.Offset] > 1 || q.Length != 8192 {
				t.Fatalf("%v: %d bytes at %d, the %d. time", p, q.Length, q.Offset, times[q.Offset])
			}
		}
		if r.Bytes != 2<<20 || len(seen) != 2<<20/8192 {
			t.Errorf("%v: %d bytes in %d requests", p, r.Bytes, len(seen))
		}
	}
}

// TestSizes: all multiples from the smallest to the largest, within the range.
func TestSizes(t *testing.T) {
	for _, p := range []Pattern{Write, RandWrite} {
		j := Job{Pattern: p, BlockSize: 4096, MaxBlock: 16384, Depth: 4, Limit: 8 << 20, Size: 1 << 20, Verify: true}
		seen, r := record(t, j)
		sizes := map[int64]int{}
		for _, q := range seen {
			if q.Op == backend.OpWrite {
				sizes[q.Length]++
			}
			if q.Offset < 0 || q.Offset+q.Length > 1<<20 {
				t.Fatalf("%v: %d bytes at %d", p, q.Length, q.Offset)
			}
		}
		if len(sizes) != 4 || sizes[4096] == 0 || sizes[16384] == 0 || r.Verified == 0 {
			t.Errorf("%v: sizes %v, %d blocks compared", p, sizes, r.Verified)
		}
	}
}

// TestSeed: the same seed results in the same requests.
func TestSeed(t *testing.T) {
	j := Job{Pattern: RandRW, BlockSize: 4096, Depth: 1, Limit: 1 << 20, Seed: 7, ReadShare: 70}
	a, r := record(t, j)
	b, _ := record(t, j)
	for i := range a {
		if a[i].Offset != b[i].Offset || a[i].Op != b[i].Op {
			t.Fatalf("request %d: %v at %d, then %v at %d", i, a[i].Op, a[i].Offset, b[i].Op, b[i].Offset)
		}
	}
	if reads := r.Sides[ToRead].Ops(); reads < 150 || reads > 210 {
		t.Errorf("%d of %d are reads, want 70 %%", reads, r.Ops)
	}
	j.Seed = 8
	if c, _ := record(t, j); c[0].Offset == a[0].Offset && c[1].Offset == a[1].Offset && c[2].Offset == a[2].Offset {
		t.Error("another seed leads to the same places")
	}
}

func TestFlushEvery(t *testing.T) {
	j := job(Write)
	j.Runtime, j.Limit, j.FlushEvery = 0, 64*8192, 4
	seen, r := record(t, j)
	writes, flushes := 0, 0
	for _, q := range seen {
		if q.Op == backend.OpFlush {
			flushes++
			if writes != 4 {
				t.Fatalf("a flush after %d writes", writes)
			}
			writes = 0
			continue
		}
		writes++
	}
	if flushes < 15 || r.Flushes.Count != uint64(flushes) || r.Ops != 64 {
		t.Errorf("%d flushes, %d counted, %d writes", flushes, r.Flushes.Count, r.Ops)
	}
}

// TestRate: each direction has its own rate, and one without a rate continues, as with fio.
func TestRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern Pattern
		rate    [Directions]int64   // requests per second
		want    [Directions]float64 // -1: many
	}{
		{RandRead, [Directions]int64{500}, [Directions]float64{100}},
		{RandRW, [Directions]int64{500, 250}, [Directions]float64{100, 50}},
		{ReadWrite, [Directions]int64{0, 500}, [Directions]float64{-1, 100}},
		{TrimWrite, [Directions]int64{0, 250, 500}, [Directions]float64{0, 50, 54}}, // four in flight
		{RandTrimWrite, [Directions]int64{0, 500, 250}, [Directions]float64{0, 50, 50}},
	} {
		j := job(c.pattern)
		j.Runtime = 200 * time.Millisecond
		for d := range j.Rate {
			j.Rate[d] = c.rate[d] * 8192
		}
		least := 0.3
		for try := 0; ; try++ {
			_, r := record(t, j)
			slow := false
			for d, want := range c.want {
				n := float64(r.Sides[d].Ops())
				if want < 0 {
					want = 1000 / least // many
				} else if n > want*1.1+5 {
					t.Errorf("%v: %v %v requests in 200 ms, want %v", c.pattern, n, Direction(d), want)
				}
				slow = slow || n < want*least
			}
			if !slow {
				break
			}
			if try == 5 { // not because it got no processor
				t.Errorf("%v: %v, %v and %v requests in 200 ms, want %v", c.pattern, r.Sides[0].Ops(), r.Sides[1].Ops(), r.Sides[2].Ops(), c.want)
				break
			}
		}
	}
}

// TestThink: after this many requests nothing is in flight for a while.
func TestThink(t *testing.T) {
	j := job(RandRead)
	j.Runtime, j.Limit, j.Think, j.ThinkEvery = 0, 64*8192, 5*time.Millisecond, 16
	seen, r := record(t, j)
	if len(seen) != 64 || r.Elapsed < 15*time.Millisecond || r.Percentile(99) > 5*time.Millisecond {
		t.Errorf("%d requests in %v, want 64 in three pauses of 5 ms or four; p99 %v", len(seen), r.Elapsed, r.Percentile(99))
	}
}

// TestTrimWrite: each trimmed block is then written, as many as were trimmed, even when the time is over.
func TestTrimWrite(t *testing.T) {
	for _, p := range []Pattern{TrimWrite, RandTrimWrite} {
		for _, think := range []time.Duration{0, time.Microsecond} {
			j := job(p)
			j.Runtime, j.Limit, j.Think, j.Verify, j.FlushEvery = 0, 1<<20, think, true, 7
			seen, r := record(t, j)
			trimmed := map[int64]bool{}
			for _, q := range seen {
				switch q.Op {
				case backend.OpDeallocate:
					trimmed[q.Offset] = true
				case backend.OpWrite:
					if !trimmed[q.Offset] || q.Length != 8192 {
						t.Errorf("%v: a write of %d bytes at %d, which was not trimmed", p, q.Length, q.Offset)
					}
					delete(trimmed, q.Offset)
				}
			}
			if len(trimmed) > 0 || r.Sides[ToTrim].Bytes != 1<<20 || r.Sides[ToWrite].Bytes != 1<<20 || r.Verified != 128 {
				t.Errorf("%v: %d trims without a write; %d bytes trimmed, %d written, %d blocks compared",
					p, len(trimmed), r.Sides[ToTrim].Bytes, r.Sides[ToWrite].Bytes, r.Verified)
			}
		}
		j := job(p)
		j.Rate[ToWrite], j.Runtime = 8192*100, 20*time.Millisecond
		if _, r := record(t, j); r.Sides[ToTrim].Ops() != r.Sides[ToWrite].Ops() {
			t.Errorf("%v: %d trims, %d writes", p, r.Sides[ToTrim].Ops(), r.Sides[ToWrite].Ops())
		}
	}
}

// TestSizesOfDirections: each direction has its own sizes, at multiples of the smallest.
func TestSizesOfDirections(t *testing.T) {
	j := Job{Pattern: RandRW, Depth: 4, Limit: 8 << 20, Blocks: [Directions]Sizes{
		{Split: []Share{{4096, 25}, {16384, 75}}}, {Least: 8192, Most: 16384},
	}}
	seen, r := record(t, j)
	var sizes [2]map[int64]int
	for i := range sizes {
		sizes[i] = map[int64]int{}
	}
	for _, q := range seen {
		d, least := 0, int64(4096)
		if q.Op == backend.OpWrite {
			d, least = 1, 8192
		}
		if sizes[d][q.Length]++; q.Offset%least != 0 || q.Offset+q.Length > storeSize {
			t.Fatalf("%v: %d bytes at %d", q.Op, q.Length, q.Offset)
		}
	}
	reads, writes := sizes[0], sizes[1]
	if len(reads) > 4 || reads[4096] == 0 || reads[16384] < reads[4096] || len(writes) != 2 || writes[8192] == 0 || writes[16384] == 0 {
		t.Errorf("reads %v, writes %v", reads, writes)
	}
	if got := r.SizeText(); got != "4 KiB-16 KiB/8 KiB-16 KiB" {
		t.Error(got)
	}
}

// stuck is a store that stops answering after a while, like one whose paths are lost.
type stuck struct{ backend.Store }

type stuckQueue struct {
	backend.Queue
	polls int
}

func (s stuck) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := s.Store.NewQueue(depth, notify)
	return &stuckQueue{Queue: q}, err
}

func (q *stuckQueue) Poll(rs []backend.Result) int {
	if q.polls++; q.polls > 1000 {
		return 0
	}
	return q.Queue.Poll(rs)
}

// Wait yields the processor.
func (q *stuckQueue) Wait() error {
	time.Sleep(time.Millisecond)
	return nil
}

// TestInterruptStuck: an interrupted job does not wait forever for requests in flight.
func TestInterruptStuck(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	j := job(RandRead)
	j.Runtime = time.Minute
	r, err := Run(ctx, stuck{newStore(t)}, backendtest.Buffer(1<<20, 4096), j, nil)
	if !errors.Is(err, context.DeadlineExceeded) || r == nil || r.Ops == 0 || r.Began.IsZero() {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestVerifyLater: a job checks what another one wrote, and reports what is wrong.
func TestVerifyLater(t *testing.T) {
	s := newStore(t)
	j := Job{Pattern: RandWrite, BlockSize: 4096, Depth: 4, Limit: 1 << 20, Size: 1 << 20, Verify: true}
	if _, err := run(t, s, j); err != nil {
		t.Fatal(err)
	}
	j.Pattern, j.Seed = Read, 99
	r, err := run(t, s, j)
	if err != nil || r.Verified != 256 {
		t.Errorf("%v, %v", r, err)
	}
	for _, c := range []struct {
		name   string
		change func()
		want   string
	}{
		{"a flipped bit", func() { s.Memory()[8192+100] ^= 1 }, "offset 8192: its CRC-32C is"},
		{"a flipped CRC", func() { s.Memory()[8192+100] ^= 1; s.Memory()[crcAt] ^= 1 }, "offset 0: its CRC-32C is"},
		{"another place", func() { copy(s.Memory()[:4096], s.Memory()[4096:]) }, "offset 0: it is the block of offset 4096"},
		{"never written", func() { clear(s.Memory()[:4096]) }, "offset 0: it has no header"},
	} {
		c.change()
		_, err := run(t, s, j)
		var wrong *VerifyError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	j.BlockSize, j.Offset, j.Size = 8192, 16384, 16384
	if _, err := run(t, s, j); err == nil || !strings.Contains(err.Error(), "in blocks of 4096 bytes, not 8192") {
		t.Errorf("%v", err)
	}
}

// TestSideBySide: jobs begin together and end together, and are counted together.
func TestSideBySide(t *testing.T) {
	s := newStore(t)
	tasks := make([]Task, 3)
	for i := range tasks {
		tasks[i] = Task{Store: s, Memory: backendtest.Buffer(1<<20, 4096), Job: job(RandWrite)}
		tasks[i].Job.Verify, tasks[i].Job.Runtime = true, 60*time.Millisecond
	}
	rs, err := RunAll(t.Context(), tasks, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := Merge(rs)
	if n := rs[0].Ops + rs[1].Ops + rs[2].Ops; m.Ops != n || m.Latencies().Count != n || m.Sides[ToWrite].Bytes != n*8192 {
		t.Errorf("%d operations merged, want %d", m.Ops, n)
	}
	if last := m.Samples[len(m.Samples)-1]; last.Ops[ToWrite] != m.Ops {
		t.Errorf("samples end at %d operations of %d", last.Ops[ToWrite], m.Ops)
	}
	sum := uint64(0)
	for _, w := range m.Windows(20 * time.Millisecond) {
		sum += w.Ops[ToWrite]
		if w.End <= w.Start || w.At != w.End-w.Start {
			t.Errorf("window from %v to %v, %v", w.Start, w.End, w.At)
		}
	}
	if sum != m.Ops {
		t.Errorf("windows have %d operations of %d", sum, m.Ops)
	}
}

func TestOneOfSeveralFails(t *testing.T) {
	good, bad := newStore(t), backendtest.NewFaulty(newStore(t))
	bad.Inject(backendtest.Rule{Skip: 50, Err: backend.ErrNoSpace})
	long := job(RandWrite)
	long.Runtime = time.Minute
	buffer := func() []byte { return backendtest.Buffer(1<<20, 4096) }
	_, err := RunAll(t.Context(), []Task{{Store: good, Memory: buffer(), Job: long}, {Store: bad, Memory: buffer(), Job: long}}, nil)
	if !errors.Is(err, backend.ErrNoSpace) {
		t.Errorf("%v", err)
	}
	impossible := long
	impossible.Depth = 0
	_, err = RunAll(t.Context(), []Task{{Store: good, Memory: buffer(), Job: long}, {Store: good, Memory: buffer(), Job: impossible}}, nil)
	if err == nil || !strings.Contains(err.Error(), "depth 0") {
		t.Errorf("%v", err)
	}
}

// calm yields the processor while nothing ends.
type calm struct{ backend.Store }

type calmQueue struct{ backend.Queue }

func (s calm) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := s.Store.NewQueue(depth, notify)
	return calmQueue{q}, err
}

func (q calmQueue) Wait() error {
	time.Sleep(time.Millisecond)
	return nil
}

// TestAbandon: a job that is cut short abandons requests that do not end, once no other job of its group is running.
// Its result covers the time until then.
func TestAbandon(t *testing.T) {
	t.Parallel()
	hung := backendtest.NewFaulty(newStore(t))
	fault := hung.Inject(backendtest.Rule{Skip: 50, Hold: backendtest.HoldRequest})
	long := job(RandWrite)
	long.Runtime = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	var hangs sync.WaitGroup
	defer hangs.Wait()
	hangs.Go(func() { // ends when a request hangs
		defer cancel()
		for fault.Hits() == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	})
	abandoned := 0
	task := Task{Store: calm{hung}, Memory: backendtest.Buffer(1<<20, 4096), Job: long, Abandon: func() {
		abandoned++
		fault.Release()
	}}
	results, err := RunAll(ctx, []Task{task, {Store: newStore(t), Memory: backendtest.Buffer(1<<20, 4096), Job: long}}, nil)
	if !errors.Is(err, context.Canceled) || abandoned != 1 {
		t.Errorf("%v, abandoned %d times", err, abandoned)
	}
	if r := results[0]; r == nil || r.Ops == 0 || r.Ops > 50 || r.Elapsed > leaveTime {
		t.Errorf("result %+v", r)
	}
}

// TestSamplesThin: if there is no room for more samples, every other one is dropped.
func TestSamplesThin(t *testing.T) {
	s := newSamples(&Job{Runtime: time.Second, Interval: 100 * time.Millisecond})
	for i := 1; i <= 1000; i++ {
		if at := time.Duration(i) * 100 * time.Millisecond; at >= s.next {
			s.take(Sample{At: at})
		}
	}
	if len(s.all) > cap(s.all) || s.interval < 3200*time.Millisecond || s.all[len(s.all)-1].At < 90*time.Second {
		t.Errorf("%d samples every %v to %v", len(s.all), s.interval, s.all[len(s.all)-1].At)
	}
	for i := 1; i < len(s.all); i++ {
		if s.all[i].At <= s.all[i-1].At {
			t.Errorf("sample %d at %v after %v", i, s.all[i].At, s.all[i-1].At)
		}
	}
}

// TestLateThread: a thread that got no processor from before the measurement until after its end has measured what it
// had in flight.
func TestLateThread(t *testing.T) {
	s := newStore(t)
	j := job(RandRead)
	j.Ramp, j.Runtime = 20*time.Millisecond, time.Millisecond
	r, err := run(t, late{s}, j)
	if err != nil || r.Ops == 0 || r.Elapsed <= 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// late is a store whose first poll takes long.
type late struct{ backend.Store }

type lateQueue struct {
	backend.Queue
	polled bool
}

func (s late) NewQueue(depth int, notify func()) (backend.Queue, error) {
	q, err := s.Store.NewQueue(depth, notify)
	return &lateQueue{Queue: q}, err
}

func (q *lateQueue) Poll(rs []backend.Result) int {
	if !q.polled {
		time.Sleep(50 * time.Millisecond)
	}
	q.polled = true
	return q.Queue.Poll(rs)
}
