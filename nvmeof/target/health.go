package target

import (
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
)

// askDrives is how often drives are asked for their health, of which each may take
// seconds. The rest is looked at as often as sizes are.
const askDrives = time.Minute

// watchStores looks after the stores until the target closes.
func (t *Target) watchStores() {
	for t.pause(t.cfg.Revalidate) {
		t.Revalidate()
		for _, v := range t.openedVolumes() {
			v.examine(time.Now())
		}
	}
}

func (t *Target) openedVolumes() []*volume {
	t.opening.Lock()
	defer t.opening.Unlock()
	return slices.Collect(maps.Keys(t.volumes.all))
}

// examine asks the store how it is and tells hosts of what they have to be warned
// of. The store stays open as long as that takes; see volume.close.
func (v *volume) examine(now time.Time) {
	before, h := v.ask(now)
	if h.Warnings() == before.Warnings() && h.Drive.Temperature == before.Drive.Temperature {
		return
	}
	if h.Short() && !before.Short() {
		v.target.log.Warn("storage below a namespace is running out",
			zap.String("export", v.name), zap.Uint8("percent_left_of_what_it_may_need", h.Spare),
			zap.String("remedy", "free space in the file system, or preallocate the file"))
	}
	v.target.opening.Lock()
	defer v.target.opening.Unlock()
	for n := range v.users {
		n.subsystem.healthChanged()
	}
}

// ask asks the store and the drive, if it is time.
func (v *volume) ask(now time.Time) (before, h *health.State) {
	v.asking.Lock()
	defer v.asking.Unlock()
	before = v.health.Load()
	if v.closed {
		return before, before
	}
	h = &health.State{Spare: v.spare(), Drive: before.Drive, Failed: v.failed()}
	if now.Sub(v.asked) >= askDrives {
		v.asked = now
		h.Drive = v.askDrive()
	}
	v.health.Store(h)
	return before, h
}

// spare compares what the store may still need with what is there.
func (v *volume) spare() uint8 {
	r, ok := v.store.(backend.Roomer)
	if !ok {
		return 100
	}
	free, _, err := r.Room()
	allocated, err2 := v.store.Allocated()
	if errors.Join(err, err2) != nil {
		return 100 // not known
	}
	return health.PercentLeft(free, int64(v.bytes())-allocated)
}

// failed reports whether the store has given up.
func (v *volume) failed() bool {
	if l, ok := v.store.(backend.Latcher); ok {
		return l.Failed() != nil
	}
	for i := range v.lanes {
		if l := v.lanes[i].Load(); l != nil && l.failed.Load() {
			return true
		}
	}
	return false
}

func (v *volume) askDrive() backend.Health {
	r, ok := v.store.(backend.HealthReporter)
	if !ok {
		return backend.Health{}
	}
	h, err := r.Health()
	if err != nil {
		if !errors.Is(err, backend.ErrNoHealth) {
			v.target.warn("a drive does not tell its health", zap.String("export", v.name), zap.Error(err))
		}
		return backend.Health{}
	}
	return h
}

// healthChanged lets every controller look at what its host has to be told.
func (s *Subsystem) healthChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		c.do(c.checkHealth)
	}
}

// checkHealth reports warnings that are new. Those that have gone are reported
// again when they come back.
func (c *Controller) checkHealth() {
	now := c.warnings(c.namespaces())
	fresh := now &^ c.warned
	c.warned = now
	if fresh&capsule.WarningReliability != 0 {
		c.raise(state.EventFailure)
	}
	if fresh != 0 {
		c.raise(uint32(fresh))
	}
}

// namespaces are those that the host sees.
func (c *Controller) namespaces() []*Namespace {
	var out []*Namespace
	for _, id := range c.above(0) {
		if ns := c.namespace(id); ns != nil {
			out = append(out, ns)
		}
	}
	return out
}

// warnings is Critical Warning for some namespaces: theirs, and what follows from
// the thresholds that this host has set.
func (c *Controller) warnings(list []*Namespace) (w uint8) {
	for _, ns := range list {
		h := ns.health.Load()
		w |= h.Warnings()
		if c.features.limits.Exceeded(h.Temperature()) {
			w |= capsule.WarningTemperature
		}
	}
	return w
}
