package target

import (
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// watchStores examines the stores until the target closes.
func (t *Target) watchStores() {
	saved := time.Now()
	for t.pause(t.cfg.Revalidate) {
		t.saveStates(&saved)
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
