package statetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A watcher runs Watch and forwards its calls to a channel.
type watcher struct {
	*fixture
	changes chan bool
	calls   atomic.Int32 // concurrent calls of changed
	ended   chan error
	cancel  context.CancelFunc
}

func (f *fixture) watch(prefix string) *watcher {
	ctx, cancel := context.WithCancel(f.ctx)
	w := &watcher{fixture: f, changes: make(chan bool, 1), ended: make(chan error, 1), cancel: cancel}
	go func() { // ends with end
		w.ended <- f.s.Watch(ctx, prefix, func() {
			if w.calls.Add(1) > 1 {
				f.Error("two calls of changed at the same time")
			}
			defer w.calls.Add(-1)
			select {
			case w.changes <- true:
			default: // a call is already in the channel
			}
		})
	}()
	w.want("at the beginning")
	return w
}

// want waits for a call.
func (w *watcher) want(what string) {
	w.Helper()
	select {
	case <-w.changes:
	case err := <-w.ended:
		w.Fatalf("Watch ended %s: %v", what, err)
	case <-time.After(w.Within):
		w.Fatalf("no call of changed %s in %v", what, w.Within)
	}
}

func (w *watcher) end() {
	w.Helper()
	w.cancel()
	if err := w.outcome("Watch", func() error { return <-w.ended }); err != context.Canceled {
		w.Errorf("Watch ended with %v", err)
	}
}

// sees waits until the key has the value after a call of changed.
func (w *watcher) sees(key, value string) {
	w.Helper()
	for end := time.Now().Add(w.Within); time.Now().Before(end); {
		w.want(fmt.Sprintf("for %s=%s", key, value))
		for _, e := range w.get(key).Entries {
			if e.Key == key && string(e.Value) == value {
				return
			}
		}
	}
	w.Fatalf("%s=%s was not seen in %v", key, value, w.Within)
}

func watches(f *fixture) {
	w, all := f.watch("a/"), f.watch("")
	defer w.end()
	defer all.end()
	f.put("a/1", "put")
	w.sees("a/1", "put")
	all.sees("a/1", "put")
	f.put("a/1", "changed")
	w.sees("a/1", "changed")
	drain(all.changes)
	f.txn(state.Txn{Then: []state.Op{{Key: "a/1", Delete: true}}})
	w.want("after a key was deleted")
	all.want("after a key was deleted")
	f.put("b", "1")
	all.sees("b", "1")
}

func drain(c chan bool) {
	select {
	case <-c:
	default:
	}
}

// watchEachChange: the last of many changes is seen, including those of other clients.
func watchEachChange(f *fixture) {
	w, other := f.watch("a"), f.open()
	defer w.end()
	for n := range 100 {
		t := state.Txn{Then: []state.Op{put("a", fmt.Sprint(n))}}
		if _, err := other.Txn(f.ctx, t); err != nil {
			f.Fatal(err)
		}
		if n%10 == 9 {
			w.sees("a", fmt.Sprint(n))
		}
	}
}
