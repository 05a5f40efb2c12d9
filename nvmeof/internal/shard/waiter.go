package shard

import "github.com/nvmeof-go/nvmeof/nvmeof/internal/list"

// A Waiter is one goroutine's wait for an operation of the loop. It can be reused after Await has returned.
type Waiter struct {
	shard *Shard
	start func()
	msg   message
	wake  chan struct{} // done, or the loop is ours to drive

	done  bool
	holds bool // the loop was passed on with the wake
	err   error
	link  list.Link[Waiter] // in lease.parked
}

// NewWaiter returns a waiter for an operation that start begins in the loop and whose end calls Done.
func (s *Shard) NewWaiter(start func()) *Waiter {
	w := &Waiter{shard: s, start: start, wake: make(chan struct{}, 1)}
	w.msg.fn = w.park
	return w
}

// Await begins the operation and returns when Done has been called, or [ErrClosed] if the shard closes first. The
// calling goroutine drives the loop itself if it is free. It must not already be the loop's owner.
func (w *Waiter) Await() error {
	s := w.shard
	w.done, w.holds, w.err = false, false, nil
	if s.TryHold() {
		w.start()
		s.Send()
		s.rouse()
		w.drive()
		return w.err
	}
	if !s.post(&w.msg) {
		return ErrClosed
	}
	<-w.wake
	if w.holds {
		w.drive()
	}
	return w.err
}

// drive runs the loop until the operation is done.
func (w *Waiter) drive() {
	s := w.shard
	s.yielder.Woke()
	for !w.done && !s.closing() {
		s.step()
	}
	if !w.done {
		w.err = ErrClosed
	}
	s.Release()
}

// park begins the operation in a loop that another goroutine drives.
func (w *Waiter) park() {
	l := &w.shard.lease
	l.parked.Push(w, &w.link)
	if w.link.Prev() != nil {
		l.crowded = w.shard.now
	}
	w.start()
}

// Done ends the wait. The loop's owner calls it, once.
func (w *Waiter) Done() {
	w.done = true
	if w.link.Linked() {
		w.shard.lease.parked.Remove(&w.link)
		w.wake <- struct{}{}
	}
}
