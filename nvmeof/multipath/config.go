package multipath

import (
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath/internal/decide"
)

// Config describes a subsystem and its paths. A zero field takes the default.
type Config struct {
	NQN    nvmeof.NQN // required
	Paths  []PathConfig
	Policy Policy // default NUMA
	// Wait makes Connect wait for targets that do not answer yet, or accept no host yet: until each
	// path is refused or given up ([Timers].CtrlLossTmo).
	Wait bool
	// KeepLost keeps a lost path as long as another one is live: CtrlLossTmo counts from when all
	// are lost. It is for callers that do not add such a path again. Default: each path is given up
	// by itself.
	KeepLost bool
	// Event is called when a path's state or an ANA state changes, from goroutines of
	// the package: it must not block, nor call the subsystem. Default: none.
	Event func(Event)
	// NamespaceEvent is called as Event is, when a namespace that is open has another
	// size, was removed or has come back ([Namespace.Removed]), and with nil when
	// others may have come or gone: [Subsystem.Namespaces]. Default: none.
	NamespaceEvent func(*Namespace)
	// MaxNamespaces is how many namespaces may be open at a time, beside those that were removed: a target
	// may list a million. Default nvmeof.MaxNamespaces.
	MaxNamespaces int
	// Unmeasured turns off the counting of ended requests and their times in [Subsystem.Measure].
	// It is for measuring the cost of that.
	Unmeasured bool
}

// PathConfig describes a path: one controller, and how to reach it.
type PathConfig struct {
	// Host is required. It has the device, which is what a host interface is here; it
	// stays the caller's, to be closed after the subsystem.
	Host *host.Host
	// Options are those of the connection. NQN is the subsystem's; Event belongs to
	// this package.
	Options host.Options
	// Keys puts the keys of an attempt to connect in its options, instead of those of Options: so keys are replaced
	// while hosts stay connected. It is called by one goroutine at a time, and has to return soon. Default: none are.
	Keys func(*host.Options)
	Timers
}

// Timers are what happens after a controller was lost, with the names of nvme-cli's
// options. A zero field takes the default.
type Timers struct {
	// ReconnectDelay is the longest pause between two attempts to connect: the first
	// is a tenth of it, each further one twice as long. Default 10 s.
	ReconnectDelay time.Duration
	// CtrlLossTmo is when a path is given up for good, counted from the loss of its
	// controller, or, where it never had one, from the time at which it was added and all
	// others were lost; default 600 s, negative: never.
	CtrlLossTmo time.Duration
	// FastIOFailTmo is when requests stop to wait for the path; default and negative:
	// when it is given up.
	FastIOFailTmo time.Duration
	// ReplayDelay is how long after the loss of a controller requests that change
	// blocks, and may still be in the target, wait before they are sent again or fail.
	// Default: until the target has ended them, by a shutdown if it still responds,
	// or else by its keep alive timer; see the package's documentation. Negative: they do not wait, as those of Linux up to 6.12.
	ReplayDelay time.Duration
}

const (
	defaultReconnectDelay = 10 * time.Second
	defaultCtrlLoss       = 600 * time.Second
)

func (t *Timers) decided() decide.Timers {
	d := decide.Timers{ReconnectDelay: t.ReconnectDelay, CtrlLoss: t.CtrlLossTmo, FastIOFail: t.FastIOFailTmo}
	if d.ReconnectDelay <= 0 {
		d.ReconnectDelay = defaultReconnectDelay
	}
	if d.CtrlLoss == 0 {
		d.CtrlLoss = defaultCtrlLoss
	}
	if d.FastIOFail == 0 {
		d.FastIOFail = -1
	}
	return d
}

// requestTimeout is how long a request is tried that fails on a path which is there.
func (t *Timers) requestTimeout() time.Duration {
	d := t.decided()
	if d.FastIOFail >= 0 {
		return d.FastIOFail
	}
	return max(d.CtrlLoss, 0)
}

// A Policy says which of several paths a request takes, with the names of Linux's
// iopolicy. Optimized paths come before others.
type Policy = decide.Policy

// Policies.
const (
	NUMA       = decide.NUMA       // the one whose device is nearest to the processor of the request
	RoundRobin = decide.RoundRobin // one after the other
	QueueDepth = decide.QueueDepth // the one with the fewest requests in flight
	Latency    = decide.Latency    // the one that has been fastest, by its requests in flight
)

// ParsePolicy reads a policy's name.
func ParsePolicy(s string) (Policy, error) { return decide.ParsePolicy(s) }

// State is where in its life a path is.
type State = decide.State

// States.
const (
	StateConnecting = decide.Connecting // it never was live
	StateLive       = decide.Live       // it has a controller
	StateLost       = decide.Lost       // it had one, and tries to get another
	StateDeleting   = decide.Deleting   // it goes, by the user's wish
	StateDead       = decide.Dead       // it is given up, after CtrlLossTmo, or since its Host is closed
)

// An Event is something that happened to a path.
type Event struct {
	Path  *Path
	State State // as it is now
	Err   error // why it is not live or, with ANA, why they could not be read
	ANA   bool  // the ANA states were read again
}

// MaxPaths is how many paths a subsystem may have.
const MaxPaths = 32

func (c *Config) check() error {
	if c.NQN == "" {
		return errors.New("multipath: Config.NQN is missing")
	}
	if len(c.Paths) == 0 {
		return errors.New("multipath: Config.Paths is empty")
	}
	if c.Policy > Latency {
		return fmt.Errorf("multipath: %v: unknown", c.Policy)
	}
	if c.MaxNamespaces < 0 {
		return fmt.Errorf("multipath: Config.MaxNamespaces is %d", c.MaxNamespaces)
	}
	return nil
}

// complete fills in what a path has from its host and subsystem.
func (c PathConfig) complete(nqn nvmeof.NQN) (PathConfig, error) {
	if c.Host == nil {
		return c, errors.New("multipath: PathConfig.Host is missing")
	}
	o := &c.Options
	if o.NQN != "" && o.NQN != nqn {
		return c, fmt.Errorf("multipath: a path to subsystem %s cannot belong to %s", o.NQN, nqn)
	}
	o.NQN = nqn
	if o.Trsvcid == 0 {
		o.Trsvcid = nvmeof.DefaultPort
	}
	if o.HostNQN == "" {
		o.HostNQN = c.Host.Identity().NQN
	}
	if o.HostID == (capsule.HostID{}) {
		o.HostID = c.Host.Identity().ID
	}
	if o.KeepAliveTmo < 0 && c.ReplayDelay == 0 {
		return c, errors.New("multipath: without keep alive a target may never end the commands of a lost path: set KeepAliveTmo, or set ReplayDelay to the time to wait for them")
	}
	return c, nil
}

// sameHost refuses a path on which the target would see another host.
func (c *PathConfig) sameHost(o *PathConfig) error {
	if c.Options.HostNQN != o.Options.HostNQN || c.Options.HostID != o.Options.HostID {
		return fmt.Errorf("multipath: path %v is of host %s, the others of %s: all paths need the same HostNQN and HostID",
			c.addr(), c.Options.HostNQN, o.Options.HostNQN)
	}
	return nil
}
