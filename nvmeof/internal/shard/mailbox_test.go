package shard

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

func TestMailboxOrder(t *testing.T) {
	var m mailbox
	var got []int
	for i := range 5 {
		m.push(&message{fn: func() { got = append(got, i) }})
	}
	if n := m.run(); n != 5 {
		t.Errorf("ran %d messages, want 5", n)
	}
	for i, v := range got {
		if i != v {
			t.Fatalf("messages ran in the order %v", got)
		}
	}
	if m.run() != 0 || m.pending() {
		t.Error("messages ran twice")
	}
}

// TestMailboxReuse: a message may be queued again by its own function.
func TestMailboxReuse(t *testing.T) {
	var m mailbox
	runs := 0
	msg := &message{}
	msg.fn = func() {
		if runs++; runs < 3 {
			m.push(msg)
		}
	}
	m.push(msg)
	for range 5 {
		m.run()
	}
	if runs != 3 {
		t.Errorf("message ran %d times, want 3", runs)
	}
}

func TestMailboxSeal(t *testing.T) {
	var m mailbox
	ran := false
	m.push(&message{fn: func() { ran = true }})
	m.seal()
	if !ran {
		t.Error("sealing dropped a message")
	}
	if m.push(&message{fn: func() {}}) {
		t.Error("a sealed mailbox took a message")
	}
	if m.seal() != 0 {
		t.Error("sealing twice ran something")
	}
}

// TestDoFromEverywhere: with many senders every function runs exactly once, and none is left when the loop sleeps.
func TestDoFromEverywhere(t *testing.T) {
	s, _ := newShard(t, Config{})
	s.Start()
	const senders, each = 8, 500
	var ran atomic.Int64
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := range each {
				if i%10 == 0 {
					s.Call(func() { ran.Add(1) })
				} else {
					s.Do(func() { ran.Add(1) })
				}
			}
		})
	}
	wg.Wait()
	s.Call(func() {})
	if got := ran.Load(); got != senders*each {
		t.Errorf("%d functions ran, want %d", got, senders*each)
	}
}

func TestClosed(t *testing.T) {
	s, _ := newShard(t, Config{})
	s.Start()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s.Do(func() { t.Error("ran on a closed shard") }) {
		t.Error("a closed shard took a function")
	}
	if err := s.Call(func() {}); !errors.Is(err, ErrClosed) {
		t.Errorf("Call on a closed shard: %v, want %v", err, ErrClosed)
	}
	if err := s.NewWaiter(func() {}).Await(); !errors.Is(err, ErrClosed) {
		t.Errorf("Await on a closed shard: %v, want %v", err, ErrClosed)
	}
}

func TestPostAgain(t *testing.T) {
	s, _ := newShard(t, Config{})
	s.Start()
	ran := make(chan struct{})
	m := Message{Func: func() { ran <- struct{}{} }}
	for range 3 {
		if !s.Post(&m) {
			t.Fatal("a message was refused")
		}
		<-ran
	}
}
