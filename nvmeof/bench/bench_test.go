package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/memory"
)

func newStore(t *testing.T) *memory.Store {
	t.Helper()
	s, err := memory.New(memory.Config{Size: 4 << 20, BlockSize: 4096})
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
	for p := RandRead; p <= Write; p++ {
		t.Run(p.String(), func(t *testing.T) {
			s := newStore(t)
			r, err := run(t, s, job(p))
			if err != nil {
				t.Fatal(err)
			}
			if r.Ops == 0 || r.IOPS() <= 0 || r.Latency.TotalCount() != int64(r.Ops) || r.Percentile(50) <= 0 {
				t.Errorf("%d operations, %v a second, %d timed", r.Ops, r.IOPS(), r.Latency.TotalCount())
			}
			if r.Elapsed < 15*time.Millisecond || r.Throughput() != r.IOPS()*8192 {
				t.Errorf("measured %v, %v bytes a second", r.Elapsed, r.Throughput())
			}
			if used, _ := s.Allocated(); (used > 0) != p.Writes() {
				t.Errorf("%d bytes of the store were written", used)
			}
		})
	}
}

func TestRangeIsKept(t *testing.T) {
	s := newStore(t)
	j := job(Write)
	j.Size = 64 << 10
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

// liar returns one wrong byte of what it read.
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
	_, err := Run(ctx, newStore(t), backendtest.Buffer(1<<20, 4096), j, nil)
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestProgress(t *testing.T) {
	j := job(RandRead)
	j.Ramp, j.Runtime = 100*time.Millisecond, 250*time.Millisecond
	last, calls := 0.0, 0
	r, err := Run(t.Context(), newStore(t), backendtest.Buffer(1<<20, 4096), j, func(share float64) {
		if share < last || share > 1 {
			t.Errorf("progress went from %v to %v", last, share)
		}
		last, calls = share, calls+1
	})
	if err != nil || calls < 3 || last != 1 {
		t.Errorf("%d reports of progress, %v", calls, err)
	}
	if r.Elapsed < 200*time.Millisecond || r.Elapsed > 300*time.Millisecond {
		t.Errorf("measured %v of 250ms: the ramp counts", r.Elapsed)
	}
}

func TestImpossibleJobs(t *testing.T) {
	for name, change := range map[string]func(*Job){
		"is no multiple":      func(j *Job) { j.BlockSize = 512 },
		"hold no request":     func(j *Job) { j.Size = 4096 },
		"depth 0":             func(j *Job) { j.Depth = 0 },
		"depth 5000":          func(j *Job) { j.Depth = 5000 },
		"more than the":       func(j *Job) { j.Depth = 1000 },
		"runtime 0s":          func(j *Job) { j.Runtime = 0 },
		"use randwrite":       func(j *Job) { j.Pattern, j.Verify = Read, true },
		"block size 0 is no ": func(j *Job) { j.BlockSize = 0 },
	} {
		j := job(RandRead)
		change(&j)
		if _, err := run(t, newStore(t), j); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error with %q", err, name)
		}
	}
}

func TestParsePattern(t *testing.T) {
	for p := RandRead; p <= Write; p++ {
		if got, err := ParsePattern(p.String()); err != nil || got != p {
			t.Errorf("ParsePattern(%q) = %v, %v", p, got, err)
		}
	}
	if _, err := ParsePattern("rw"); err == nil {
		t.Error("rw is taken")
	}
}

func TestOutput(t *testing.T) {
	r, err := run(t, newStore(t), job(RandRead))
	if err != nil {
		t.Fatal(err)
	}
	var table, doc bytes.Buffer
	if err := r.Table(&table); err != nil || !strings.Contains(table.String(), "randread      8 KiB      4 ") {
		t.Errorf("%v, table:\n%s", err, &table)
	}
	if err := r.JSON(&doc, "bench", "1"); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Jobs []struct {
			Read, Write struct {
				Total uint64 `json:"total_ios"`
				Clat  struct {
					Percentile map[string]int64
				} `json:"clat_ns"`
			}
		}
	}
	if err := json.Unmarshal(doc.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if j := got.Jobs[0]; j.Read.Total != r.Ops || j.Write.Total != 0 || j.Read.Clat.Percentile["99.900000"] != int64(r.Percentile(99.9)) {
		t.Errorf("JSON:\n%s", &doc)
	}
}

// TestNoAllocation: what a job allocates does not grow with what it does.
func TestNoAllocation(t *testing.T) {
	s := newStore(t)
	q, err := s.NewQueue(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	r := newRunner(job(RandRead), q, backendtest.Buffer(1<<20, 4096))
	r.job.Size = s.Info().Size
	now := time.Now()
	for tag := range r.job.Depth {
		r.prepare(tag, now)
	}
	r.submit()
	if n := testing.AllocsPerRun(100, func() {
		r.complete(r.results[:q.Poll(r.results)], now, true, true)
	}); n != 0 {
		t.Errorf("%v allocations a turn", n)
	}
	for !q.Idle() {
		q.Poll(r.results)
	}
}
