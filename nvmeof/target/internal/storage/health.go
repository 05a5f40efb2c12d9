package storage

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
)

// AskDrives is the interval at which drives are queried for their health, which may take seconds for each. The
// rest is read as often as sizes are.
const AskDrives = time.Minute

// Examine reads the state of the store, and reports whether there may be something to report to hosts. The store
// stays open meanwhile; see Volumes.Release.
func (v *Volume) Examine(now time.Time) (changed bool) {
	before, h := v.ask(now)
	v.logNotes()
	if h.Lost != before.Lost {
		v.logLost(h.Lost)
	}
	if h.Warnings() == before.Warnings() && h.Drive.Temperature == before.Drive.Temperature {
		return false
	}
	if h.Short() && !before.Short() {
		v.recordEvent(events.Warning, fmt.Sprintf("storage is running out: %d %% is left of the space that it may still need", h.Spare))
		v.volumes.log.Warn("storage of a namespace is running out",
			zap.String("export", v.Name), zap.Uint8("percent_left_of_what_it_may_need", h.Spare),
			zap.String("remedy", "free space in the file system, or preallocate the file"))
	}
	return true
}

// silence is how long the examination of a store may take before it is reported to administrators.
const silence = 5 * time.Second

// LookAt adopts the current size of the store and examines the store. It reports whether there may be something to
// report to hosts. It does nothing while an earlier call has not returned, because the store does not answer.
func (v *Volume) LookAt(now time.Time) (resized, changed bool) {
	if v.asked.CompareAndSwap(0, v.volumes.age(now)) {
		resized, changed = v.revalidate(false), v.Examine(now) // Examine counts what is allocated
		v.asked.Store(0)
	}
	_, is := v.Silent(now)
	switch was := v.silent.Swap(is); {
	case is && !was:
		v.recordEvent(events.Error, "does not answer: its commands wait")
		v.volumes.log.Error("store does not answer: its commands wait; other stores are not affected",
			zap.String("export", v.Name), zap.String("remedy", "check its file system or device"))
	case was && !is:
		v.recordEvent(events.Info, "answers again")
		v.volumes.log.Info("store answers again", zap.String("export", v.Name))
	}
	return resized, changed
}

// Silent reports whether the store has not answered for long, and since when: its examination has taken that long,
// or it has completed none of its operations.
func (v *Volume) Silent(now time.Time) (since time.Time, is bool) {
	first := v.asked.Load()
	for i := range v.lanes {
		if l := v.lanes[i].Load(); l != nil {
			if at := l.stalledAt.Load(); at != 0 && (first == 0 || at < first) {
				first = at
			}
		}
	}
	silent := time.Duration(v.volumes.age(now) - first)
	return now.Add(-silent), first != 0 && silent >= silence
}

// Hangs reports whether the store has operations and completes none. It may be called in any shard.
func (v *Volume) Hangs() bool {
	for i := range v.lanes {
		if l := v.lanes[i].Load(); l != nil && l.stalledAt.Load() != 0 {
			return true
		}
	}
	return false
}

// logLost logs that writes will be lost or, if why is empty, no longer will.
func (v *Volume) logLost(why string) {
	if why == "" {
		v.volumes.log.Info("file or device of a namespace is at its path again", zap.String("export", v.Name))
		v.recordEvent(events.Info, "is at its path again")
		return
	}
	v.recordEvent(events.Error, "is no longer at its path; what hosts write is lost when the target ends: "+why)
	v.volumes.log.Error("file or device of a namespace is no longer at its path: what hosts write to it is lost when the target ends",
		zap.String("export", v.Name), zap.String("why", why))
}

// ask queries the store and, if it is due, the drive.
func (v *Volume) ask(now time.Time) (before, h *health.State) {
	v.querying.Lock()
	defer v.querying.Unlock()
	before = v.Health.Load()
	if v.closed {
		return before, before
	}
	allocated, err := v.store.Allocated()
	v.count(allocated, err)
	v.lookForHoles()
	state := health.State{Spare: v.spare(allocated, err), Drive: before.Drive, Failed: v.failed(), Lost: v.lost(), Cut: v.cut()}
	if now.Sub(v.queried) >= AskDrives {
		v.queried = now
		state.Drive = v.askDrive()
	}
	if state == *before {
		return before, before
	}
	h = new(health.State)
	*h = state
	v.Health.Store(h)
	return before, h
}

// spare compares the free space with what the store may still allocate, beyond allocated.
func (v *Volume) spare(allocated int64, unknown error) uint8 {
	r, ok := v.store.(backend.Roomer)
	if !ok {
		return 100
	}
	free, _, err := r.Room()
	if err != nil || unknown != nil {
		return 100 // unknown
	}
	return health.PercentLeft(free, int64(v.Bytes())-allocated)
}

// lost returns why writes will be lost, or an empty string.
func (v *Volume) lost() string {
	if d, ok := v.store.(backend.Detacher); ok {
		if err := d.Detached(); err != nil {
			return err.Error()
		}
	}
	return ""
}

// failed reports whether the store has failed permanently.
func (v *Volume) failed() bool {
	if _, ok := v.store.(backend.Latcher); ok {
		return v.Latched() != nil
	}
	for i := range v.lanes {
		if l := v.lanes[i].Load(); l != nil && l.failed.Load() {
			return true
		}
	}
	return false
}

// Latched returns why the store can no longer make data durable. It is nil if it can, or does not report that.
func (v *Volume) Latched() error {
	if l, ok := v.store.(backend.Latcher); ok {
		return l.Failed()
	}
	return nil
}

func (v *Volume) askDrive() backend.Health {
	r, ok := v.store.(backend.HealthReporter)
	if !ok {
		return backend.Health{}
	}
	h, err := r.Health()
	if err != nil {
		if !errors.Is(err, backend.ErrNoHealth) {
			v.volumes.log.Trouble("a drive does not report its health", zap.String("export", v.Name), zap.Error(err))
		}
		return backend.Health{}
	}
	return h
}

// ClearFault clears the failure of the store or, if it has not failed, accepts its current size. The store stays
// open meanwhile; see Volumes.Release.
func (v *Volume) ClearFault() error {
	v.querying.Lock()
	defer v.querying.Unlock()
	if v.closed {
		return fmt.Errorf("its store is closed: %w", backend.ErrClosed)
	}
	if !v.failed() {
		if holes, shorter := v.holes.accept(), v.whole.Swap(0) != 0; holes || shorter {
			return nil
		}
		return fmt.Errorf("%s has not failed", v.Name)
	}
	if l, ok := v.store.(backend.Latcher); ok {
		if err := l.Clear(); err != nil {
			return err
		}
	}
	for i := range v.lanes {
		if l := v.lanes[i].Load(); l != nil {
			l.failed.Store(false)
		}
	}
	return nil
}

// recordEvent records an event of the store.
func (v *Volume) recordEvent(s events.Severity, text string) {
	v.volumes.log.Events.Record(events.Event{Kind: events.Store, Severity: s, Text: v.Name + " " + text})
}
