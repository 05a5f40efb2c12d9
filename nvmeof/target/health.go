package target

import (
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// watchStores examines the stores until the target closes.
func (t *Target) watchStores() {
	saved := time.Now()
	for t.pause(t.cfg.Revalidate) {
		t.saveStates(&saved)
		t.Revalidate()
		for _, v := range t.volumes.All() {
			t.examine(v, time.Now())
		}
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
