package runner

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/boottime"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

// A Target is what groups are served with. Its methods return soon after their context ends. The
// runner calls Stop, Extend, Loads and Sizes from the goroutine of the engine, the others from any.
type Target interface {
	// Open opens clients of the storage, and returns their addresses.
	Open(ctx context.Context, inc group.Incarnation) (addresses []string, err error)
	// Close ends everything, and the clients of the storage. What is under way there may stay.
	Close()
	// Serve serves a group.
	Serve(ctx context.Context, id group.ID, epoch uint64, b group.Backend) error
	// Drain takes no more commands for a group, and returns when those under way have ended,
	// what they wrote is durable, and the storage is released.
	Drain(ctx context.Context, id group.ID, epoch uint64) error
	// Stop takes no more commands for a group, and returns at once. It may come twice.
	Stop(id group.ID, epoch uint64)
	// Extend says until when groups of a lease may be served, by the runner's clock.
	Extend(until time.Duration)
	// Fence has the storage refuse an incarnation, everywhere: see group.Fence.
	Fence(ctx context.Context, f group.Fence) error
	// Loads is how much I/O each group has that is served.
	Loads() map[group.ID]uint64
	// Sizes is how many bytes the namespaces of each group have together that is served.
	Sizes() map[group.ID]int64
}

// Config is what a runner is made of. Zero values are the defaults.
type Config struct {
	Gateway group.Config
	Groups  []group.Group
	Store   state.Store // required; the caller closes it after the runner
	Target  Target      // required

	CallTimeout  time.Duration // of the store; 0: 1 s
	FenceTimeout time.Duration // 0: 10 s

	// Clock must not stand still while the machine sleeps. Default: CLOCK_BOOTTIME.
	Clock func() time.Duration
	// Alarm, Took and Changed are called by the goroutine of the engine, and must not wait. Default:
	// nobody is called.
	Alarm   func(group.Alarm)
	Took    func(group.Took)
	Changed func(group.Status) // when gateways, groups or fences have changed
}

func (c Config) withDefaults() (Config, error) {
	if c.Store == nil || c.Target == nil {
		return c, errors.New("runner: Config.Store and Config.Target are required")
	}
	c.CallTimeout = cmp.Or(c.CallTimeout, time.Second)
	c.FenceTimeout = cmp.Or(c.FenceTimeout, 10*time.Second)
	if c.Clock == nil {
		c.Clock = boottime.Now
	}
	if c.Alarm == nil {
		c.Alarm = func(group.Alarm) {}
	}
	if c.Took == nil {
		c.Took = func(group.Took) {}
	}
	if c.Changed == nil {
		c.Changed = func(group.Status) {}
	}
	return c, nil
}
