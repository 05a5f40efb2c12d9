package client

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/internal/record"
)

// A fakeDisk is a disk in memory that can misbehave.
type fakeDisk struct {
	memory []byte
	fault  func(batch []request) // after a batch was carried out
}

func (*fakeDisk) close() error { return nil }

func (d *fakeDisk) do(batch []request) {
	for i := range batch {
		r := &batch[i]
		switch at := d.memory[r.offset:]; r.kind {
		case read:
			copy(r.data, at)
		case write:
			copy(at, r.data)
		}
		r.err, r.took = nil, time.Microsecond
	}
	if d.fault != nil {
		d.fault(batch)
	}
}

// newWorker returns a worker on the first half of a namespace of 256 blocks.
func newWorker(t *testing.T, d *fakeDisk) *worker {
	const size, blocks = 512, 256
	d.memory = make([]byte, size*blocks)
	table, err := record.Open(filepath.Join(t.TempDir(), "table"), 1, blocks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	c := &client{spec: Spec{Depth: 6, Pace: 1, Fence: time.Hour}, failed: make(chan error, 1), counts: Counts{Errors: map[string]uint64{}}}
	w := &worker{client: c, space: &Space{NSID: 1, BlockSize: size, Blocks: blocks}, table: table, count: blocks / 2,
		random: rand.New(rand.NewPCG(1, 2)), disk: d}
	w.again = func() (disk, error) { return d, nil }
	return w
}

// runBatches lets a worker do n batches, and returns the error that ended it earlier.
func runBatches(w *worker, n int) error {
	d := w.disk.(*fakeDisk)
	fault, left := d.fault, n
	d.fault = func(batch []request) {
		if fault != nil {
			fault(batch)
		}
		if left--; left == 0 {
			w.over.Store(true)
		}
	}
	w.run()
	select {
	case err := <-w.failed:
		return err
	default:
		return nil
	}
}

// firstOf returns the first request of a kind in a batch.
func firstOf(batch []request, k kind) *request {
	for i := range batch {
		if batch[i].kind == k {
			return &batch[i]
		}
	}
	return nil
}

func TestWorker(t *testing.T) {
	w := newWorker(t, &fakeDisk{})
	if err := runBatches(w, 300); err != nil {
		t.Fatal(err)
	}
	c := w.now()
	if c.Reads == 0 || c.Writes == 0 || c.FUA == 0 || c.Flushes == 0 || c.Passes < 2 || c.Requests() != 300*6 || len(c.Errors) != 0 {
		t.Errorf("%+v", c)
	}
	durable := 0
	for b := range w.count {
		if w.table.InDoubt(b) {
			t.Errorf("block %d is in doubt", b)
		}
		if w.table.Durable(b) > 0 {
			durable++
		}
	}
	if durable < w.count/2 {
		t.Errorf("%d blocks are durable", durable)
	}
}

// TestWorkerFinds: each error of a disk ends the worker.
func TestWorkerFinds(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(d *fakeDisk, batch []request)
		want  string
	}{
		{"a write that is not carried out", func(d *fakeDisk, batch []request) {
			if w := firstOf(batch, write); w != nil {
				clear(d.memory[w.offset:][:len(w.data)])
			}
		}, "it is lost"},
		{"an error", func(_ *fakeDisk, batch []request) { batch[0].err = errors.New("EIO at 0x12") }, "EIO"},
		{"a bit", func(_ *fakeDisk, batch []request) {
			if r := firstOf(batch, read); r != nil {
				r.data[len(r.data)-9] ^= 1
			}
		}, "block"},
	} {
		d := &fakeDisk{}
		w := newWorker(t, d)
		n := 0
		d.fault = func(batch []request) {
			if n++; n > 20 {
				c.fault(d, batch)
			}
		}
		if err := runBatches(w, 1000); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestWorkerFences: after its connection has ended a worker does not write for the time of Fence, and accepts both
// outcomes of its unacknowledged writes.
func TestWorkerFences(t *testing.T) {
	d := &fakeDisk{}
	w := newWorker(t, d)
	n, after := 0, 0
	d.fault = func(batch []request) {
		if n++; n < 50 {
			return
		}
		if n > 50 && firstOf(batch, write) != nil {
			after++
		}
		if n == 50 {
			for i := range batch {
				batch[i].err = errConnection
			}
		}
	}
	if err := runBatches(w, 200); err != nil {
		t.Error(err)
	}
	if after > 0 {
		t.Errorf("%d batches with writes after the connection had ended", after)
	}
	if k := w.now().Errors; k[errConnection.Error()] == 0 {
		t.Errorf("errors: %v", k)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	for us := range 100000 {
		d := time.Duration(us) * time.Microsecond
		if c := ceiling(class(d)); c < d || float64(c) > float64(d)*1.13+1 {
			t.Fatalf("%v is said to be at most %v", d, c)
		}
		h.Count(d)
	}
	for _, q := range []float64{0.5, 0.99} {
		if got, want := h.Quantile(q).Seconds(), q/10; got < want || got > want*1.13 {
			t.Errorf("quantile %v: %v s, want %v", q, got, want)
		}
	}
	if h.Quantile(1) != h.Max || class(1<<62) != len(h.Classes)-1 {
		t.Error("the longest")
	}
}

func TestKind(t *testing.T) {
	if got := Kind("path 127.0.0.1:4420: queue 3, KATO 2s, 0x1f"); got != "path #: queue #, KATO #, #" {
		t.Error(got)
	}
}
