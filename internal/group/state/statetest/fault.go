package statetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// lostReplies: the error for a transaction that was executed without a reply is ErrUnknown, and its result is there.
func lostReplies(f *fixture) {
	if f.LoseReplies == nil {
		f.Skip("this store loses no replies")
	}
	first := f.put("a", "0")
	f.LoseReplies(true)
	_, err := f.s.Txn(f.ctx, state.Txn{If: []state.Compare{{Key: "a", Revision: first}}, Then: []state.Op{put("a", "1")}})
	f.LoseReplies(false)
	if !errors.Is(err, state.ErrUnknown) {
		f.Errorf("a transaction without a reply: %v", err)
	}
	e := f.get("a").Entries[0]
	if string(e.Value) != "1" || e.Revision <= first {
		f.Errorf("after a transaction without a reply: %v", e)
	}
	r := f.txn(state.Txn{If: []state.Compare{{Key: "a", Revision: first}}, Then: []state.Op{put("a", "2")}})
	if r.Done {
		f.Error("the same comparison held twice")
	}
}

// without returns a context for calls of a store that is cut off.
func (f *fixture) without() (context.Context, context.CancelFunc) {
	return context.WithTimeout(f.ctx, 300*time.Millisecond)
}

// cut: while the store cannot be reached calls end soon after their contexts, and afterwards they succeed.
func cut(f *fixture) {
	if f.Cut == nil {
		f.Skip("this store is always reached")
	}
	f.put("a", "0")
	f.Cut(true)
	ctx, cancel := f.without()
	defer cancel()
	_, err := f.s.Txn(ctx, state.Txn{Then: []state.Op{put("a", "1")}})
	if !errors.Is(err, state.ErrUnknown) && !errors.Is(err, state.ErrUnavailable) {
		f.Errorf("Txn: %v", err)
	}
	f.wantNothing()
	f.Cut(false)
	f.again(func() error { _, err := f.s.Get(f.ctx, "a"); return err })
	f.put("a", "2")
	if e := f.get("a").Entries[0]; string(e.Value) != "2" {
		f.Errorf("after the store was cut off: %v", e)
	}
}

// wantNothing: a store that is cut off reads nothing.
func (f *fixture) wantNothing() {
	f.Helper()
	ctx, cancel := f.without()
	defer cancel()
	err := f.outcome("Get", func() error { _, err := f.s.Get(ctx, "a"); return err })
	if !errors.Is(err, state.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		f.Errorf("Get of a store that is cut off: %v", err)
	}
}

// again repeats the call until it has no error: a store that was cut off becomes reachable in time.
func (f *fixture) again(call func() error) {
	f.Helper()
	var err error
	for range 20 {
		if err = call(); err == nil {
			return
		}
	}
	f.Fatalf("the store does not come back: %v", err)
}

// watchAfterCut: changes that were made while the store was cut off are seen afterwards.
func watchAfterCut(f *fixture) {
	if f.Cut == nil {
		f.Skip("this store is always reached")
	}
	w := f.watch("a")
	defer w.end()
	for n := range 2 {
		value := fmt.Sprint(n)
		t := state.Txn{Then: []state.Op{put("a", value)}}
		f.again(func() error { _, err := f.s.Txn(f.ctx, t); return err })
		w.sees("a", value)
		f.Cut(true)
		f.wantNothing()
		f.Cut(false)
	}
}
