package statetest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/internal/group/state/statetest"
)

// A liar is a store that sometimes breaks the contract.
type liar struct {
	state.Store
	get func(l *liar, ctx context.Context, prefix string) (state.Snapshot, error)
	txn func(l *liar, ctx context.Context, t state.Txn) (state.Result, error)

	calls int
	old   state.Snapshot
}

// now returns true for one call in ten.
func (l *liar) now() bool {
	l.calls++
	return l.calls%10 == 0
}

func (l *liar) Get(ctx context.Context, prefix string) (state.Snapshot, error) {
	if l.get != nil && prefix == "k/" && l.now() {
		return l.get(l, ctx, prefix)
	}
	snap, err := l.Store.Get(ctx, prefix)
	if l.old.Revision == 0 && len(snap.Entries) > 0 {
		l.old = snap
	}
	return snap, err
}

func (l *liar) Txn(ctx context.Context, t state.Txn) (state.Result, error) {
	if l.txn != nil && l.now() {
		return l.txn(l, ctx, t)
	}
	return l.Store.Txn(ctx, t)
}

var errWrong = errors.New("not carried out")

// TestCheckFindsLies: each way to break the contract, and none.
func TestCheckFindsLies(t *testing.T) {
	for name, c := range map[string]struct {
		liar liar
		lies bool
	}{
		"honest": {liar{}, false},
		"stale read": {liar{get: func(l *liar, _ context.Context, _ string) (state.Snapshot, error) {
			return l.old, nil
		}}, true},
		"part of a snapshot": {liar{get: func(l *liar, ctx context.Context, prefix string) (state.Snapshot, error) {
			snap, err := l.Store.Get(ctx, prefix)
			snap.Entries = snap.Entries[:len(snap.Entries)/2]
			return snap, err
		}}, true},
		"lost write": {liar{txn: func(l *liar, ctx context.Context, _ state.Txn) (state.Result, error) {
			snap, err := l.Store.Get(ctx, "")
			return state.Result{Done: true, Revision: snap.Revision + 1}, err
		}}, true},
		"comparisons ignored": {liar{txn: func(l *liar, ctx context.Context, t state.Txn) (state.Result, error) {
			t.If = nil
			return l.Store.Txn(ctx, t)
		}}, true},
		"done, and an error": {liar{txn: func(l *liar, ctx context.Context, t state.Txn) (state.Result, error) {
			_, err := l.Store.Txn(ctx, t)
			return state.Result{}, errors.Join(err, errWrong)
		}}, true},
		"done twice": {liar{txn: func(l *liar, ctx context.Context, t state.Txn) (state.Result, error) {
			r, err := l.Store.Txn(ctx, t)
			t.If = nil
			l.Store.Txn(ctx, t) //nolint:errcheck // nobody knows of it
			return r, err
		}}, true},
		"wrong revision": {liar{txn: func(l *liar, ctx context.Context, t state.Txn) (state.Result, error) {
			r, err := l.Store.Txn(ctx, t)
			r.Revision++
			return r, err
		}}, true},
		"done, and it says not": {liar{txn: func(l *liar, ctx context.Context, t state.Txn) (state.Result, error) {
			r, err := l.Store.Txn(ctx, t)
			r.Done = false
			return r, err
		}}, true},
		"unknown": {liar{txn: func(l *liar, ctx context.Context, t state.Txn) (state.Result, error) {
			_, err := l.Store.Txn(ctx, t)
			return state.Result{}, errors.Join(err, state.ErrUnknown)
		}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := judge(t, c.liar); (err != nil) != c.lies {
					t.Errorf("the judge says: %v", err)
				}
			})
		})
	}
}

// judge makes two clients, one of them with the liar, do a hundred operations each.
func judge(t *testing.T, l liar) error {
	var h statetest.History
	b := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
	honest := b.Open(time.Second)
	defer honest.Close() //nolint:errcheck // has no error
	l.Store = honest
	var workers []*statetest.Worker
	for id, s := range []state.Store{honest, &l} {
		workers = append(workers, &statetest.Worker{ID: id, Store: h.Client(id, s), Prefix: "k/", Rand: rand.New(rand.NewPCG(2, uint64(id)))})
	}
	for n := range 200 {
		workers[n%2].Do(t.Context()) //nolint:errcheck // the history has it
	}
	return h.Check(t.Context(), honest, time.Minute)
}
