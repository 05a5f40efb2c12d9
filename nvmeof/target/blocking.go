package target

import "sync"

// blockingCalls executes the parts of commands that may block, outside of the shards: changes that are saved before the
// command completes. Those of one host for one object are executed one at a time, in order. So a host that sends
// thousands of them only delays others by one, and takes one goroutine. It may be used by any goroutine.
type blockingCalls struct {
	mu    sync.Mutex
	lines map[blockingKey][]func() // the waiting calls; no entry: none is running either
}

// A blockingKey names a host, and the object that its calls change: a volume's reservations, those of all volumes
// of a subsystem, or the state of a subsystem. One that hangs does not block the others.
type blockingKey struct {
	of partyName
	at any
}

// do calls f when all earlier calls of the line are done.
func (e *blockingCalls) do(l blockingKey, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lines == nil {
		e.lines = make(map[blockingKey][]func())
	}
	waiting, busy := e.lines[l]
	if busy {
		e.lines[l] = append(waiting, f)
		return
	}
	e.lines[l] = nil
	go e.run(l, f) // ends when the line is empty; the queues of its commands, and so their shards, wait for that
}

func (e *blockingCalls) run(l blockingKey, f func()) {
	for f != nil {
		f()
		f = e.next(l)
	}
}

// next removes the next call from a line. It returns nil if there is none.
func (e *blockingCalls) next(l blockingKey) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := e.lines[l]
	if len(waiting) == 0 {
		delete(e.lines, l)
		return nil
	}
	f := waiting[0]
	waiting[0] = nil
	e.lines[l] = waiting[1:]
	return f
}
