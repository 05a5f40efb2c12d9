package statetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// judging is the time limit for checking a history.
const judging = time.Minute

// A Worker randomly changes a few keys under a prefix, as one client.
type Worker struct {
	ID     int
	Store  state.Store
	Prefix string
	Rand   *rand.Rand

	made int
	seen state.Snapshot
}

// Do does one operation. Errors are recorded in the history.
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

// compare returns a comparison with what the worker has seen last.
func (w *Worker) compare(key string) state.Compare {
	for _, e := range w.seen.Entries {
		if e.Key == key {
			return state.Compare{Key: key, Revision: e.Revision}
		}
	}
	return state.Compare{Key: key}
}

// learn adds to the worker's view what was done, so that comparisons may hold.
func (w *Worker) learn(t state.Txn, r state.Revision) {
	now := contained{entries: w.seen.Entries}.put(t.Then, r)
	w.seen.Entries = now.entries
}

// linearizable makes several clients change the same keys.
func linearizable(f *fixture) { f.work(5, 60, func() {}) }

// linearizableWithLostReplies makes some of them not learn what they have done.
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

// work runs clients and checks the history. One of them calls between.
func (f *fixture) work(clients, calls int, between func()) {
	var h History
	var wait sync.WaitGroup
	for id := range clients {
		w := &Worker{ID: id, Store: h.Client(id, f.open()), Prefix: "k/", Rand: rand.New(rand.NewPCG(7, uint64(id)))}
		wait.Go(func() { // ends when it has made its calls
			for range calls {
				if id == 0 {
					between()
				}
				w.Do(f.ctx) //nolint:errcheck // the history records it
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

// wholeSnapshots: what one transaction puts is seen as a whole, or not at all.
func wholeSnapshots(f *fixture) {
	const keys, rounds = 10, 40
	writer := f.open()
	done := make(chan error, 1)
	go func() { // ends when all rounds are written
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
