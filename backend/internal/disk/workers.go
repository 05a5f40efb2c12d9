package disk

import "sync"

// Workers limit the blocking system calls that disks have in the kernel at the same time. Each occupies a thread of the
// operating system, for as long as a file system or device does not answer; and the Go runtime ends a process that has
// too many, or gets no more (see [ThreadLimit]). A call that exceeds the limit waits without a thread. Each disk may
// have one call beyond the limit, so that disks that do not answer do not stop the others. Disks that wait take turns.
type Workers struct {
	mu      sync.Mutex // guards the fields below, and those of all shares
	limit   int
	busy    int      // calls within the limit
	waiting []*share // disks with waiting calls, in the order of their turns
}

// NewWorkers returns workers with a limit; see [ThreadLimit].
func NewWorkers(limit int) *Workers { return &Workers{limit: limit} }

// A share is what one disk uses of the workers.
type share struct {
	workers *Workers // nil: there is no limit
	beyond  bool     // the disk's call beyond the limit is in the kernel
	calls   []*turn  // waiting, in order
	listed  bool     // in waiting
}

// A turn is a waiting call.
type turn struct {
	ready  chan struct{}
	beyond bool
}

// begin waits until a call may begin. The caller passes the result to end.
func (s *share) begin() (beyond bool) {
	w := s.workers
	if w == nil {
		return false
	}
	w.mu.Lock()
	switch {
	case w.busy < w.limit:
		w.busy++
		w.mu.Unlock()
		return false
	case !s.beyond:
		s.beyond = true
		w.mu.Unlock()
		return true
	}
	t := &turn{ready: make(chan struct{})}
	s.calls = append(s.calls, t)
	if !s.listed {
		s.listed = true
		w.waiting = append(w.waiting, s)
	}
	w.mu.Unlock()
	<-t.ready
	return t.beyond
}

// end says that a call has ended. The next one takes its place.
func (s *share) end(beyond bool) {
	w := s.workers
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if beyond {
		s.beyond = s.next(true)
		return
	}
	for len(w.waiting) > 0 {
		first := w.waiting[0]
		w.waiting = w.waiting[1:]
		found := first.next(false)
		if first.listed = len(first.calls) > 0; first.listed {
			w.waiting = append(w.waiting, first)
		}
		if found {
			return
		}
	}
	w.busy--
}

// next lets the next waiting call of the disk begin, and reports whether there is one.
func (s *share) next(beyond bool) bool {
	if len(s.calls) == 0 {
		return false
	}
	t := s.calls[0]
	s.calls = s.calls[1:]
	t.beyond = beyond
	close(t.ready)
	return true
}
