package target

import "sync"

// Errands are what commands have done outside of the shards since it may block: changes that
// are saved before the command completes. Those of a host in one place are done one at a time,
// in the order in which they came. So who sends thousands of them has others wait for one, and
// takes one goroutine. Any goroutine uses it.
type errands struct {
	mu    sync.Mutex
	lines map[errandLine][]func() // what waits; no entry: nothing is under way either
}

// An errandLine is who waits, and for what: a volume's reservations, those of all volumes of a
// subsystem, or its state. What does not answer keeps nobody from the others.
type errandLine struct {
	of partyName
	at any
}

// do has f called when everything before it in the line is done.
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
	go e.run(l, f) // ends with the line; the queues of its commands, and so their shards, wait for them
}

func (e *errands) run(l errandLine, f func()) {
	for f != nil {
		f()
		f = e.next(l)
	}
}

// next takes what is next out of a line, nil if there is nothing.
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
