package statetest

import (
	"context"
	"errors"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// soon is how long a call may take after its context or its store has ended.
const soon = 5 * time.Second

// outcome returns the error of call, which must end soon.
func (f *fixture) outcome(what string, call func() error) error {
	f.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }() // ends when call returns; if that takes too long the test fails
	select {
	case err := <-done:
		return err
	case <-time.After(soon):
		f.Fatalf("%s has not returned in %v", what, soon)
		return nil
	}
}

func contexts(f *fixture) {
	f.put("a", "1")
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	if _, err := f.s.Get(ctx, "a"); !errors.Is(err, context.Canceled) {
		f.Errorf("Get: %v", err)
	}
	_, err := f.s.Txn(ctx, state.Txn{Then: []state.Op{put("a", "2")}})
	if !errors.Is(err, context.Canceled) {
		f.Errorf("Txn: %v", err)
	}
	if e := f.get("a").Entries[0]; string(e.Value) != "1" && !errors.Is(err, state.ErrUnknown) {
		f.Errorf("a transaction was carried out, and its error is %v", err)
	}
	err = f.outcome("Watch", func() error { return f.s.Watch(ctx, "a", func() {}) })
	if !errors.Is(err, context.Canceled) {
		f.Errorf("Watch: %v", err)
	}
	ctx, cancel = context.WithCancel(f.ctx)
	err = f.outcome("Watch", func() error { return f.s.Watch(ctx, "a", cancel) })
	if !errors.Is(err, context.Canceled) {
		f.Errorf("Watch whose context ends in a call: %v", err)
	}
}

func closes(f *fixture) {
	f.put("a", "1")
	other := f.open()
	for range 2 {
		if err := f.s.Close(); err != nil {
			f.Errorf("Close: %v", err)
		}
	}
	if _, err := f.s.Get(f.ctx, "a"); !errors.Is(err, state.ErrUnavailable) {
		f.Errorf("Get: %v", err)
	}
	if _, err := f.s.Txn(f.ctx, state.Txn{Then: []state.Op{put("a", "2")}}); !errors.Is(err, state.ErrUnavailable) {
		f.Errorf("Txn: %v", err)
	}
	err := f.outcome("Watch", func() error { return f.s.Watch(f.ctx, "a", func() {}) })
	if !errors.Is(err, state.ErrUnavailable) {
		f.Errorf("Watch: %v", err)
	}
	f.s = other
	if e := f.get("a").Entries[0]; string(e.Value) != "1" {
		f.Errorf("after another client was closed there is %q", e.Value)
	}
}

// closeUnderWay closes a store during a watch, and during calls while it is cut off.
func closeUnderWay(f *fixture) {
	begun := make(chan bool, 1)
	calls := []func() error{func() error {
		return f.s.Watch(f.ctx, "a", func() {
			select {
			case begun <- true:
			default:
			}
		})
	}}
	if f.Cut != nil {
		f.Cut(true)
		defer f.Cut(false)
		calls = append(calls, func() error {
			_, err := f.s.Get(f.ctx, "a")
			return err
		}, func() error {
			_, err := f.s.Txn(f.ctx, state.Txn{Then: []state.Op{put("a", "2")}})
			return err
		})
	}
	ended := make(chan error, len(calls))
	for _, call := range calls {
		go func() { ended <- call() }() // ends when the store is closed
	}
	<-begun
	if err := f.s.Close(); err != nil {
		f.Error(err)
	}
	for range calls {
		err := f.outcome("a call under way", func() error { return <-ended })
		if !errors.Is(err, state.ErrUnavailable) && !errors.Is(err, state.ErrUnknown) {
			f.Errorf("a call under way ended with %v", err)
		}
	}
}
