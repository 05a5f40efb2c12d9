package shard

import "sync/atomic"

// A message is a function for the loop's owner.
type message struct {
	fn   func()
	next *message
}

// sealed marks a mailbox that accepts no more messages.
var sealed = new(message)

// A mailbox is a stack to which any goroutine pushes without a lock. The loop's owner takes all messages at once.
type mailbox struct {
	head atomic.Pointer[message]
}

// push adds a message. It returns false if the mailbox is sealed.
func (m *mailbox) push(msg *message) bool {
	for {
		head := m.head.Load()
		if head == sealed {
			return false
		}
		msg.next = head
		if m.head.CompareAndSwap(head, msg) {
			return true
		}
	}
}

func (m *mailbox) pending() bool { return m.head.Load() != nil }

// run calls the functions in the order of their arrival and returns their number.
func (m *mailbox) run() int {
	if m.head.Load() == nil {
		return 0
	}
	return runAll(m.head.Swap(nil))
}

// seal closes the mailbox to new messages and runs those that are there.
func (m *mailbox) seal() int {
	return runAll(m.head.Swap(sealed))
}

func runAll(newest *message) int {
	var oldest *message
	for newest != nil && newest != sealed {
		newest, newest.next, oldest = newest.next, oldest, newest
	}
	n := 0
	for ; oldest != nil; n++ {
		// A function may queue its own message again, so read next first.
		next, fn := oldest.next, oldest.fn
		oldest.next = nil
		fn()
		oldest = next
	}
	return n
}

// Do queues fn for the loop's owner and reports whether it will run; it returns false once the shard is closed. Any
// goroutine may call it.
func (s *Shard) Do(fn func()) bool {
	return s.post(&message{fn: fn})
}

func (s *Shard) post(m *message) bool {
	if !s.mail.push(m) {
		return false
	}
	s.summon()
	return true
}

// A Message is a function that goroutines queue repeatedly without allocating. It must not be queued again before Func
// has begun.
type Message struct {
	Func func()
	msg  message
}

// Post is Do for a message.
func (s *Shard) Post(m *Message) bool {
	m.msg.fn = m.Func
	return s.post(&m.msg)
}

// Call runs fn in the loop and returns when it has run, or [ErrClosed]. Any goroutine may call it except the loop's
// owner, which would wait for itself.
func (s *Shard) Call(fn func()) error {
	done := make(chan struct{})
	if !s.Do(func() { fn(); close(done) }) {
		return ErrClosed
	}
	<-done
	return nil
}

// Wake makes the loop take another turn before it sleeps. It costs a system
// call only where the loop is asleep. Any goroutine may call it.
func (s *Shard) Wake() {
	s.kick.Store(true)
	if s.sleeping.Load() {
		s.cq.Wake()
	}
}
