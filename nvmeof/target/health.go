package target

import (
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// watchStores examines the stores until the target closes.
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
	next int  // index of the store after the one that is being examined
	left bool // nobody waits for it any more: it ends with that one
	done chan struct{}
}

// lookAfter examines stores and returns those that are left when one does not answer for
// long. That one is not asked again before it has answered.
func (t *Target) lookAfter(all []*storage.Volume) (left []*storage.Volume) {
	r := &round{done: make(chan struct{})}
	go func() { // ends before lookAfter does, or when that store has answered
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

// stalled excuses the commands for a store that completes nothing: their hosts may have
// other buffers beside those that they cannot give back, and what waits for one waits for
// the store instead, not in the way of commands for others. It is called in the shard.
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
				x.partner.op.Release() // it enters again with this one
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

// take is the next store to examine; nil: none.
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

// examine examines a store, and reports what is new to hosts.
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
