package statetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// judging is how long a history may be judged.
const judging = time.Minute

// A Worker changes a few keys under a prefix at random, as one client.
type Worker struct {
	ID     int
	Store  state.Store
	Prefix string
	Rand   *rand.Rand

	made int
	seen state.Snapshot
}

// Do does one thing. Errors are for the history.
func (w *Worker) Do(ctx context.Context) error {
	if w.Rand.IntN(3) == 0 {
		snap, err := w.Store.Get(ctx, w.Prefix)
		if err == nil {
			w.seen = snap
		}
		return err
	}
	t := state.Txn{Then: []state.Op{w.op(w.key())}}
	if w.Rand.IntN(4) > 0 {
		t.If = append(t.If, w.compare(t.Then[0].Key))
	}
	if other := w.key(); other != t.Then[0].Key && w.Rand.IntN(2) == 0 {
		t.If, t.Then = append(t.If, w.compare(other)), append(t.Then, w.op(other))
	}
	r, err := w.Store.Txn(ctx, t)
	if err == nil && r.Done {
		w.learn(t, r.Revision)
	}
	return err
}

func (w *Worker) key() string { return fmt.Sprint(w.Prefix, w.Rand.IntN(4)) }

func (w *Worker) op(key string) state.Op {
	if w.Rand.IntN(6) == 0 {
		return state.Op{Key: key, Delete: true}
	}
	w.made++
	return put(key, fmt.Sprintf("%d/%d", w.ID, w.made))
}

// compare is with what the worker has seen last.
func (w *Worker) compare(key string) state.Compare {
	for _, e := range w.seen.Entries {
		if e.Key == key {
			return state.Compare{Key: key, Revision: e.Revision}
		}
	}
	return state.Compare{Key: key}
}

// learn adds to what was seen what was done, so that comparisons may hold.
func (w *Worker) learn(t state.Txn, r state.Revision) {
	now := contained{entries: w.seen.Entries}.put(t.Then, r)
	w.seen.Entries = now.entries
}

// linearizable has several clients change the same keys.
func linearizable(f *fixture) { f.work(5, 60, func() {}) }

// linearizableWithLostReplies has some of them not know what they have done.
func linearizableWithLostReplies(f *fixture) {
	if f.LoseReplies == nil {
		f.Skip("this store loses no replies")
	}
	rng, lose := rand.New(rand.NewPCG(1, 2)), false
	f.work(3, 20, func() {
		lose = !lose && rng.IntN(8) == 0
		f.LoseReplies(lose)
	})
	f.LoseReplies(false)
}

// work has clients do their work, and judges it. One of them calls between.
func (f *fixture) work(clients, calls int, between func()) {
	var h History
	var wait sync.WaitGroup
	for id := range clients {
		w := &Worker{ID: id, Store: h.Client(id, f.open()), Prefix: "k/", Rand: rand.New(rand.NewPCG(7, uint64(id)))}
		wait.Go(func() { // until it has made its calls
			for range calls {
				if id == 0 {
					between()
				}
				w.Do(f.ctx) //nolint:errcheck // the history has it
			}
		})
	}
	wait.Wait()
	answered, unknown := h.Counts()
	f.Logf("%d calls answered, %d of unknown outcome", answered, unknown)
	if answered < calls {
		f.Errorf("%d calls were answered", answered)
	}
	if err := h.Check(f.ctx, f.s, judging); err != nil {
		f.Error(err)
	}
}

// wholeSnapshots: what one transaction puts is seen whole, or not at all.
func wholeSnapshots(f *fixture) {
	const keys, rounds = 10, 40
	writer := f.open()
	done := make(chan error, 1)
	go func() { // until all rounds are written
		var err error
		for n := 0; n < rounds && err == nil; n++ {
			var t state.Txn
			for k := range keys {
				t.Then = append(t.Then, put(fmt.Sprint("k/", k), fmt.Sprint(n)))
			}
			_, err = writer.Txn(f.ctx, t)
		}
		done <- err
	}()
	for {
		snap := f.get("k/")
		for _, e := range snap.Entries {
			if first := snap.Entries[0]; string(e.Value) != string(first.Value) || e.Revision != first.Revision || len(snap.Entries) != keys {
				f.Fatalf("a snapshot with %v and %v of %d", first, e, len(snap.Entries))
			}
		}
		select {
		case err := <-done:
			if err != nil {
				f.Error(err)
			}
			return
		default:
		}
	}
}
