package target

import (
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// watchStores examines the stores periodically until the target closes.
func (t *Target) watchStores() {
	for t.pause(t.cfg.Revalidate) {
		for left := t.volumes.All(); len(left) > 0; {
			left = t.lookAfter(left)
		}
	}
}

// examineTimeout is how long the examination of one store delays that of the others.
const examineTimeout = 100 * time.Millisecond

// A round examines stores, one after the other, until one does not answer.
type round struct {
	mu   sync.Mutex
	next int  // index of the store after the one being examined
	left bool // lookAfter has returned: the round ends with the current store
	done chan struct{}
}

// lookAfter examines stores. If one does not answer for long, it returns those after that one. The slow store is
// not examined again before it has answered.
func (t *Target) lookAfter(all []*storage.Volume) (left []*storage.Volume) {
	r := &round{done: make(chan struct{})}
	go func() { // ends before lookAfter does, or when the slow store has answered
		defer close(r.done)
		for v := r.take(all); v != nil; v = r.take(all) {
			t.lookAt(v)
		}
	}()
	for next := 0; ; {
		select {
		case <-r.done:
			return nil
		case <-time.After(examineTimeout):
		}
		r.mu.Lock()
		if r.left = r.next == next; r.left {
			r.mu.Unlock()
			return all[next:]
		}
		next = r.next
		r.mu.Unlock()
	}
}

// stalled handles a store that completes nothing. The buffers of its commands no longer count for their hosts,
// which cannot return them. Commands that wait for a buffer are held at the gate instead, so that they do not
// delay commands for other stores. Called in the shard.
func (w *worker) stalled(l *storage.Lane) {
	t := w.device.target
	t.mu.Lock()
	defer t.mu.Unlock()
	for q := range t.queues {
		if q.worker == w {
			q.stalled(l)
		}
	}
}

func (q *queue) stalled(l *storage.Lane) {
	for i := range q.requests {
		r := &q.requests[i]
		if r.op.Lane != l {
			continue
		}
		switch r.stage {
		case stageBuffer:
			r.waiter.Cancel()
			if x := r.extra; x != nil && x.partner != nil {
				x.partner.op.Release() // it is entered again together with this one
			}
			r.op.HoldStalled()
			r.stage = stageGate
		case stageBackend:
			if r.buffer.Valid() {
				r.buffer = r.buffer.Excuse()
			}
			if x := r.extra; x != nil && x.scratch.Valid() {
				x.scratch = x.scratch.Excuse()
			}
		}
	}
}

// take returns the next store to examine, or nil.
func (r *round) take(all []*storage.Volume) *storage.Volume {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left || r.next == len(all) {
		return nil
	}
	r.next++
	return all[r.next-1]
}

func (t *Target) lookAt(v *storage.Volume) {
	resized, changed := v.LookAt(time.Now())
	if resized {
		t.exports(v, (*Subsystem).namespaceChanged)
	}
	if changed {
		t.exports(v, (*Subsystem).healthChanged)
	}
}

// examine examines the health of a store, and reports changes to hosts.
func (t *Target) examine(v *storage.Volume, now time.Time) {
	if v.Examine(now) {
		t.exports(v, (*Subsystem).healthChanged)
	}
}

// healthChanged lets every controller report warnings that are new to its host.
func (s *Subsystem) healthChanged(capsule.NSID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		c.do(c.checkHealth)
	}
}
