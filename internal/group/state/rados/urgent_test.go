package rados

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// TestUrgent: heartbeats are executed in time by a slow cluster, of which the gateway's hosts ask a lot while other
// gateways change the counter.
func TestUrgent(t *testing.T) {
	for _, others := range []int{0, 1} {
		t.Run(fmt.Sprint(others), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { urgent(t, others) }) })
	}
}

func urgent(t *testing.T, others int) {
	o := newFake()
	o.takes = 150 * time.Millisecond
	s := fakeStore(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var made atomic.Int64
	change := func(s *Store, i int, after time.Duration) {
		wg.Go(func() {
			defer s.Close() // waits for what was begun
			for ctx.Err() == nil {
				if _, err := s.Txn(ctx, put(fmt.Sprint("record/", i), "")); err == nil && i == 0 {
					made.Add(1)
				}
				time.Sleep(after)
			}
		})
	}
	for i := range 8 {
		change(s, i, 0)
	}
	for range others {
		change(fakeStore(t, o), 100, 400*time.Millisecond)
	}
	time.Sleep(time.Second)
	for i := range 20 {
		soon, cancel := context.WithTimeout(ctx, time.Second)
		beat := put("beat/a", fmt.Sprint(i))
		beat.Urgent = true
		if r, err := s.Txn(soon, beat); err != nil || !r.Done {
			t.Errorf("heartbeat %d: %v, %v", i, r, err)
		}
		cancel()
		time.Sleep(500 * time.Millisecond)
	}
	if made.Load() == 0 {
		t.Error("transactions that are not urgent are not executed at all")
	}
	cancel()
	wg.Wait()
}

// TestTxnEnds: a transaction whose counter is always another one ends after the limit, without one of the caller.
func TestTxnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFake()
		o.takes = time.Second
		s := fakeStore(t, o)
		o.read1 = func() { // as the other gateways do after it has read the counter, too
			go func() {
				time.Sleep(time.Millisecond)
				o.set(func() { o.keys[counter] = bytesOf(revisionOf(o.keys[counter]) + 1) })
			}()
		}
		o.set(func() { o.keys[counter] = bytesOf(7) })
		begun := time.Now()
		if r, err := s.Txn(t.Context(), put("a", "")); err == nil || time.Since(begun) > time.Minute {
			t.Errorf("%v, %v after %v", r, err, time.Since(begun))
		}
		s.Close()
		time.Sleep(time.Second) // for what read1 has begun
	})
}

// TestUrgentGivesUp: one that is not urgent ends with its context between two attempts, too.
func TestUrgentGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFake()
		s := fakeStore(t, o)
		if err := s.take(t.Context(), s.turn); err != nil { // as an urgent one that takes long
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Txn(ctx, put("a", "")); !errors.Is(err, state.ErrUnavailable) || errors.Is(err, state.ErrUnknown) || o.writes != 0 {
			t.Errorf("%d writes, %v", o.writes, err)
		}
		s.turn.end()
		done(t, s, put("a", ""))
	})
}
