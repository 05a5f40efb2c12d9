package host

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// TestQueuesOnOneLoop: many queues polled in turn need few turns of their loop, and one whose results are not taken
// does not delay the others.
func TestQueuesOnOneLoop(t *testing.T) {
	const queues, depth = 50, 4
	r := newRig(t, rigConfig{stores: []backend.Store{newStore(t, 16<<20, 4096)}, host: Config{Shards: 1}})
	c := r.connect(r.options())
	n := r.namespace(c)
	buffers, err := c.NewBuffers(queues * depth * 4096)
	if err != nil {
		t.Fatal(err)
	}
	var qs []*Queue
	batches := make([][]backend.Request, queues)
	for i := range queues {
		q, err := n.OpenQueue(depth, nil)
		if err != nil {
			t.Fatal(err)
		}
		qs = append(qs, q)
		for k := range depth {
			at := (i*depth + k) * 4096
			batches[i] = append(batches[i], backend.Request{Tag: uint64(k), Op: backend.OpRead, Offset: int64(at), Length: 4096, Buf: buffers.Bytes()[at:][:4096]})
		}
		if q.Submit(batches[i]) != depth {
			t.Fatal("not all was taken")
		}
	}
	results := make([]backend.Result, depth)
	const lazy = queues / 2 // the results of these are not taken
	left := lazy * depth
	for start := time.Now(); left > 0; {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d results are missing", left)
		}
		for _, q := range qs[:lazy] {
			left -= q.Poll(results)
		}
	}
	if s := qs[0].share; s.queues.Load() != queues {
		t.Errorf("%d queues share the loop, want %d", s.queues.Load(), queues)
	}
	for _, q := range qs {
		if err := q.Close(); err != nil { // takes the remaining results
			t.Error(err)
		}
	}
	if s := qs[0].share; s.queues.Load() != 0 || s.unpolled.Load() != 0 {
		t.Errorf("%d queues and %d results are left", s.queues.Load(), s.unpolled.Load())
	}
}

// TestSharingTime: how long a queue does not run the loop.
func TestSharingTime(t *testing.T) {
	var s sharing
	s.queues.Store(3)
	if s.patient() {
		t.Error("patient although all results are taken")
	}
	s.unpolled.Store(1)
	for range 2 {
		for poll, want := range []bool{true, true, false} {
			if s.patient() != want {
				t.Fatalf("poll %d is patient: %v; want two polls without a result of three queues, then a turn", poll, !want)
			}
		}
	}
	s.queues.Store(1)
	if s.patient() {
		t.Error("the only queue is patient")
	}
}
