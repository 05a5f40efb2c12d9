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

// Config describes a subsystem and its paths. Fields that are zero take their defaults.
type Config struct {
	NQN    nvmeof.NQN // required
	Paths  []PathConfig
	Policy Policy // default NUMA
	// Wait makes Connect wait for targets that do not answer yet, or do not accept this host yet, until each path is
	// refused or given up ([Timers].CtrlLossTmo).
	Wait bool
	// KeepLost keeps a lost path as long as another one is live: CtrlLossTmo counts from when all are lost. It is for
	// callers that do not add lost paths again. By default, each path is given up independently.
	KeepLost bool
	// Event is called when a path's state or an ANA state changes. It runs on goroutines of this package: it must not
	// block, or call methods of the subsystem. Default: none.
	Event func(Event)
	// NamespaceEvent is called, under the same conditions as Event, when the size of an open namespace changes, or when
	// it was removed or is back ([Namespace.Removed]). It is called with nil when other namespaces may have been added
	// or removed: see [Subsystem.Namespaces]. Default: none.
	NamespaceEvent func(*Namespace)
	// MaxNamespaces limits how many namespaces may be open at a time, not counting removed ones: a target may list a
	// million. Default nvmeof.MaxNamespaces.
	MaxNamespaces int
	// Unmeasured disables counting and timing of completed requests in [Subsystem.Measure]. It is for measuring the
	// cost of that.
	Unmeasured bool
}

// PathConfig describes a path: one controller, and how to reach it.
type PathConfig struct {
	// Host is required. It has the RDMA device, which takes the place of a host interface. The caller owns it, and
	// closes it after the subsystem.
	Host *host.Host
	// Options are the options of the connection. NQN is set to the subsystem's; Event is used by this package.
	Options host.Options
	// Keys replaces the keys in the options of each connection attempt, so that keys can be changed while hosts stay
	// connected. It is called from one goroutine at a time, and must return soon. Default: the keys of Options.
	Keys func(*host.Options)
	Timers
}

// Timers control what happens after a controller was lost. The names are those of nvme-cli's options. Fields that are
// zero take their defaults.
type Timers struct {
	// ReconnectDelay is the maximum pause between two connection attempts: the first pause is a tenth of it, each
	// further one is twice as long. Default 10 s.
	ReconnectDelay time.Duration
	// CtrlLossTmo is when a path is given up for good, counted from the loss of its controller. For a path that never
	// had one, it counts from when the path was added and all others were lost. Default 600 s; negative: never.
	CtrlLossTmo time.Duration
	// FastIOFailTmo is when requests stop waiting for a lost path. Default, and if negative: when the path is given up.
	FastIOFailTmo time.Duration
	// ReplayDelay is how long requests that change blocks, and may still be in the target, wait after the loss of a
	// controller before they are sent again or fail. Default: until the target has ended them, because of a shutdown if
	// it still responds, or else of its keep alive timer; see the package documentation. If negative, they do not wait,
	// as in Linux up to 6.12.
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

// requestTimeout is how long a request is retried that fails on a live path; 0 means no limit.
func (t *Timers) requestTimeout() time.Duration {
	d := t.decided()
	if d.FastIOFail >= 0 {
		return d.FastIOFail
	}
	return max(d.CtrlLoss, 0)
}

// A Policy says which of several paths a request takes. The names are those of Linux's iopolicy. Optimized paths are
// preferred over others.
type Policy = decide.Policy

// Policies.
const (
	NUMA       = decide.NUMA       // the path whose device is nearest to the processor of the request
	RoundRobin = decide.RoundRobin // each path in turn
	QueueDepth = decide.QueueDepth // the path with the fewest requests in flight
	Latency    = decide.Latency    // the path with the lowest measured latency, weighted by its requests in flight
)

// ParsePolicy returns the policy with the given name.
func ParsePolicy(s string) (Policy, error) { return decide.ParsePolicy(s) }

// State is the state of a path.
type State = decide.State

// States.
const (
	StateConnecting = decide.Connecting // it has never been live
	StateLive       = decide.Live       // it has a controller
	StateLost       = decide.Lost       // it had a controller, and reconnects
	StateDeleting   = decide.Deleting   // it is being deleted by the user
	StateDead       = decide.Dead       // it was given up, after CtrlLossTmo or because its Host was closed
)

// An Event reports a change of a path.
type Event struct {
	Path  *Path
	State State // the present state
	Err   error // why the path is not live or, with ANA, why the states could not be read
	ANA   bool  // the ANA states were read again
}

// MaxPaths is the maximum number of paths of a subsystem.
const MaxPaths = 32

func (c *Config) check() error {
	if c.NQN == "" {
		return errors.New("multipath: Config.NQN is missing")
	}
	if len(c.Paths) == 0 {
		return errors.New("multipath: Config.Paths is empty")
	}
	if c.Policy > Latency {
		return fmt.Errorf("multipath: unknown %v", c.Policy)
	}
	if c.MaxNamespaces < 0 {
		return fmt.Errorf("multipath: Config.MaxNamespaces is %d: want at least 0", c.MaxNamespaces)
	}
	return nil
}

// complete fills in the options that a path takes from its host and subsystem.
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
		return c, errors.New("multipath: without keep alive, a target may never end the commands of a lost path: set KeepAliveTmo, or set ReplayDelay to the time to wait before they are repeated")
	}
	return c, nil
}

// sameHost returns an error if o identifies another host to the target.
func (c *PathConfig) sameHost(o *PathConfig) error {
	if c.Options.HostNQN != o.Options.HostNQN || c.Options.HostID != o.Options.HostID {
		return fmt.Errorf("multipath: path %v belongs to host %s, the others to %s: all paths need the same HostNQN and HostID",
			c.addr(), c.Options.HostNQN, o.Options.HostNQN)
	}
	return nil
}
