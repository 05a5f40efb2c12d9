package target

import (
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// watchStores looks after the stores until the target closes.
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

// examine asks a store how it is, and has hosts told of what is new.
func (t *Target) examine(v *storage.Volume, now time.Time) {
	if v.Examine(now) {
		t.exports(v, (*Subsystem).healthChanged)
	}
}

// healthChanged lets every controller look at what its host has to be told.
func (s *Subsystem) healthChanged(capsule.NSID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		c.do(c.checkHealth)
	}
}

// checkHealth reports warnings that are new. Those that have gone are reported
// again when they come back.
func (c *Controller) checkHealth() {
	now := c.warnings(slices.Collect(c.view.All))
	fresh := now &^ c.warned
	c.warned = now
	if fresh&capsule.WarningReadOnly != 0 {
		c.raise(state.EventFailure) // Linux resets the controller upon it: not for what still works
	}
	if fresh != 0 {
		c.raise(uint32(fresh))
	}
}

// warnings is Critical Warning for some namespaces: theirs, and what follows from
// the thresholds that this host has set.
func (c *Controller) warnings(list []*storage.Namespace) (w uint8) {
	for _, ns := range list {
		h := ns.Volume.Health.Load()
		w |= h.Warnings()
		if c.features.limits.Exceeded(h.Temperature()) {
			w |= capsule.WarningTemperature
		}
	}
	return w
}
