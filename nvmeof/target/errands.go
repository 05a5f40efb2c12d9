package target

import "sync"

// errands executes the parts of commands that may block, outside of the shards: changes that are saved before the
// command completes. Those of one host for one object are executed one at a time, in order. So a host that sends
// thousands of them only delays others by one, and takes one goroutine. It may be used by any goroutine.
type errands struct {
	mu    sync.Mutex
	lines map[errandLine][]func() // the waiting calls; no entry: none is running either
}

// An errandLine names a host, and the object that its calls change: a volume's reservations, those of all volumes
// of a subsystem, or the state of a subsystem. One that hangs does not block the others.
type errandLine struct {
	of partyName
	at any
}

// do calls f when all earlier calls of the line are done.
func (e *errands) do(l errandLine, f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lines == nil {
		e.lines = make(map[errandLine][]func())
	}
	waiting, busy := e.lines[l]
	if busy {
		e.lines[l] = append(waiting, f)
		return
	}
	e.lines[l] = nil
	go e.run(l, f) // ends when the line is empty; the queues of its commands, and so their shards, wait for that
}

func (e *errands) run(l errandLine, f func()) {
	for f != nil {
		f()
		f = e.next(l)
	}
}

// next removes the next call from a line. It returns nil if there is none.
func (e *errands) next(l errandLine) func() {
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
