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

// A Target serves groups. Its methods must return soon after their context ends. The runner calls Stop, Extend, Loads
// and Sizes on the engine's goroutine, and the others on any goroutine.
type Target interface {
	// Open opens storage clients and returns their addresses.
	Open(ctx context.Context, inc group.Incarnation) (addresses []string, err error)
	// Close ends everything and closes the storage clients. Requests that are in progress in the storage may remain.
	Close()
	// Serve serves a group.
	Serve(ctx context.Context, id group.ID, epoch uint64, b group.Backend) error
	// Drain makes the target accept no more commands for a group. It returns when the commands in progress have ended,
	// what they wrote is durable, and the storage is released.
	Drain(ctx context.Context, id group.ID, epoch uint64) error
	// Stop makes the target accept no more commands for a group, and returns at once. It may be called twice.
	Stop(id group.ID, epoch uint64)
	// Extend sets the time until which groups with leases may be served, by the runner's clock.
	Extend(until time.Duration)
	// Fence makes the storage refuse an incarnation everywhere: see group.Fence.
	Fence(ctx context.Context, f group.Fence) error
	// Loads returns the I/O of each group that is served.
	Loads() map[group.ID]uint64
	// Sizes returns, for each group that is served, the total size of its namespaces in bytes.
	Sizes() map[group.ID]int64
}

// Config configures a runner. Zero values select the defaults.
type Config struct {
	Gateway group.Config
	Groups  []group.Group
	Store   state.Store // required; the caller closes it after the runner
	Target  Target      // required

	CallTimeout  time.Duration // of the store; 0: 1 s
	FenceTimeout time.Duration // 0: 10 s

	// Clock must continue while the machine sleeps. Default: CLOCK_BOOTTIME.
	Clock func() time.Duration
	// Alarm, Took and Changed are called on the engine's goroutine and must not block. They may be nil.
	Alarm   func(group.Alarm)
	Took    func(group.Took)
	Changed func(group.Status) // called when gateways, groups or fences have changed
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
