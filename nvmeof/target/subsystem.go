package target

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// SubsystemConfig describes a subsystem. A zero field takes the default.
type SubsystemConfig struct {
	NQN    nvmeof.NQN // required
	Serial string     // at most 20 ASCII characters; default: derived from the NQN
	Model  string     // at most 40 ASCII characters; default "nvmeof"

	// Controllers get identifiers from MinController to MaxController; default: the range in [Config].
	MinController, MaxController capsule.ControllerID

	// RefuseDuplicates refuses a host that already has a controller through the same listener, until that has
	// ended. The default is to allow it, as Linux does: the host may have lost its connection before the target
	// notices.
	RefuseDuplicates bool

	// State saves the counters of the subsystem's lifetime, and the write protection that hosts set, across
	// restarts of the target; default: nothing, and both end with the target.
	State StateStore
	// AwaitState lets AddSubsystem succeed if State cannot be read, or another target uses it. Since it is unknown
	// then which namespaces hosts have protected, AddNamespace fails with the reason until State can be read; each
	// call tries again.
	AwaitState bool

	// Version is the NVMe version that controllers report, from 1.2.1 to 2.0.0, which is the default. It does not
	// change their behaviour.
	Version capsule.Version
}

// A Subsystem has namespaces, and the hosts that may connect to it and use them.
type Subsystem struct {
	target     *Target
	nqn        nvmeof.NQN
	discovery  bool // the discovery subsystem, which has no namespaces
	traits     atomic.Pointer[traits]
	hosts      access.List[HostConfig]
	namespaces atomic.Pointer[storage.Table] // for shards
	exports    atomic.Pointer[[]*Namespace]  // the active namespaces by identifier, for administrators
	progress   atomic.Uint32                 // Software Progress Marker
	unsafe     atomic.Uint64                 // associations that ended without a shutdown
	ports      atomic.Pointer[[]PortID]      // the ports on which it is exposed, ascending; nil: all

	errors atomic.Uint64 // number of entries of all error logs
	life   lifetime

	change     changeLock
	past       map[capsule.NSID]lineage // the last namespace at each NSID; under change
	departed   departures               // the namespaces that the change under way has removed; under change
	generation atomic.Uint32            // of namespaces; written under change

	counting sync.Mutex
	regroups ana.Changes

	mu          sync.Mutex // protects controllers; shards lock it, so nothing may block under it
	controllers map[capsule.ControllerID]*Controller
	last        capsule.ControllerID
	removed     bool       // no controller can join any more
	empty       *sync.Cond // signalled when no controllers are left
}

func newSubsystem(t *Target, c SubsystemConfig) (*Subsystem, error) {
	if _, err := nvmeof.AnyNQN(string(c.NQN)); err != nil {
		return nil, fmt.Errorf("subsystem %w", err)
	}
	x, err := newTraits(&t.cfg, c)
	if err != nil {
		return nil, err
	}
	s := &Subsystem{
		target: t, nqn: c.NQN,
		controllers: make(map[capsule.ControllerID]*Controller), past: make(map[capsule.NSID]lineage), departed: make(departures),
	}
	s.traits.Store(x)
	s.last = x.min + capsule.ControllerID(uint32(t.firstID)%(uint32(x.max-x.min)+1))
	s.empty = sync.NewCond(&s.mu)
	s.namespaces.Store(new(storage.Table))
	s.exports.Store(new([]*Namespace))
	return s, nil
}

// NQN returns the subsystem's name.
func (s *Subsystem) NQN() nvmeof.NQN { return s.nqn }

// table returns the current namespaces.
func (s *Subsystem) table() *storage.Table { return s.namespaces.Load() }

// Namespaces lists the active namespaces in the order of their identifiers.
func (s *Subsystem) Namespaces() []*Namespace { return slices.Clone(*s.exports.Load()) }

// join gives a new controller its identifier (NVMe base 2.0, 3.1.1: the dynamic controller model). It repeats the
// checks of admit, since the configuration may have changed; later changes find the controller.
func (s *Subsystem) join(c *Controller) refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if no := s.judge(c); no.refused() {
		return no
	}
	if no := makeRoom(s, c); no.refused() {
		return no
	}
	x := c.traits
	for range uint32(x.max-x.min) + 1 {
		if s.last++; s.last > x.max || s.last < x.min {
			s.last = x.min
		}
		if s.controllers[s.last] == nil {
			if no := c.own(false); no.refused() {
				return no
			}
			c.id = s.last
			s.controllers[c.id] = c
			return refusal{}
		}
	}
	return allInUse()
}

// judge checks whether a controller may join, and gives it the host's rights. Called with mu held.
func (s *Subsystem) judge(c *Controller) refusal {
	switch {
	case s.removed:
		return forbidden(capsule.StatusConnectInvalidParam, badSubNQN, "subsystem is being removed", "")
	case s.discovery:
		return refusal{}
	case !s.exposed(c.listener.port.id):
		return forbidden(capsule.StatusConnectInvalidParam, badSubNQN, "subsystem is not exposed on this listener",
			fmt.Sprintf("nvmeof subsystem set %s --listeners LIST, with the listener of %v in LIST", word(s.nqn), c.listener.port.addr))
	}
	e := s.hosts.Find(c.hostNQN)
	if e == nil {
		return notAllowed(c.hostNQN, s.nqn)
	}
	if no := notReady(e); no.refused() {
		return no
	}
	if c.traits.refuse && s.connected(c) {
		return duplicate(s)
	}
	c.view.Rights.Store(e.Rights)
	return refusal{}
}

// duplicate refuses a host that is connected already. A retry may succeed, so Do Not Retry is not set.
func duplicate(s *Subsystem) refusal {
	return busy("host has a controller through this listener already",
		fmt.Sprintf("nvme disconnect on the host, or nvmeof subsystem set %s --refuse-duplicates=false", word(s.nqn)))
}

// connected reports whether another controller has the same host and listener. If the host has a key, a controller
// that has not authenticated does not count. Called with mu held.
func (s *Subsystem) connected(c *Controller) bool {
	for _, o := range s.controllers {
		if o != c && o.hostNQN == c.hostNQN && o.hostID == c.hostID && o.listener == c.listener && o.trusted() {
			return true
		}
	}
	return false
}

func (s *Subsystem) leave(c *Controller) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.controllers[c.id] == c {
		delete(s.controllers, c.id)
		c.releaseIdentifier()
	}
	if len(s.controllers) == 0 {
		s.empty.Broadcast()
	}
}

// Disconnect ends a controller, and with it the host's connections; the host may connect again.
func (s *Subsystem) Disconnect(id capsule.ControllerID) error {
	c := s.controller(id)
	if c == nil {
		return fmt.Errorf("%s has no controller %d", s.nqn, id)
	}
	c.do(func() { c.end("disconnected by the administrator") })
	return nil
}

func (s *Subsystem) controller(id capsule.ControllerID) *Controller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.controllers[id]
}

// otherHostID returns a controller of the same host NQN with another host identifier: one of the two is an
// impostor, or existed before the host crashed. If the host has a key, a controller that has not authenticated
// does not exclude others. Hosts without a name do not exclude each other.
func (s *Subsystem) otherHostID(nqn nvmeof.NQN, id capsule.HostID) *Controller {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if nqn != "" && c.hostNQN == nqn && c.hostID != id && c.trusted() {
			return c
		}
	}
	return nil
}

// secondIdentifier refuses a host that is connected with another identifier. If the host has crashed, that
// controller ends, hence without Do Not Retry; it ends by itself only if it has a keep alive timeout.
func secondIdentifier(c *Controller) refusal {
	return refusal{status: capsule.StatusConnectInvalidHost, at: badHostID,
		reason: "host NQN is connected with another host identifier",
		remedy: ownIdentifier + fmt.Sprintf("; if the connected host is gone: nvmeof controller remove %d -n %s", c.id, word(c.subsystem.nqn))}
}

// admit finds the subsystem and checks whether the host may use it.
func (t *Target) admit(f capsule.Connect, d *capsule.ConnectData) (*Subsystem, refusal) {
	sub := t.subsystem(&d.SubNQN)
	if sub == nil {
		return nil, forbidden(capsule.StatusConnectInvalidParam, badSubNQN, "no such subsystem",
			fmt.Sprintf("nvmeof subsystem add %s, or start the target with --nqn %[1]s", word(nvmeof.NQN(d.SubNQN.String()))))
	}
	if sub.discovery {
		return sub, refusal{}
	}
	host := nvmeof.NQN(d.HostNQN.String())
	entry := sub.hosts.Find(host)
	switch {
	case entry == nil:
		return nil, notAllowed(host, sub.nqn)
	case d.HostID == capsule.HostID{}:
		return nil, refusal{status: capsule.StatusConnectInvalidHost | capsule.StatusDNR, at: badHostID,
			reason: "host identifier is zero", remedy: "nvme connect --hostid"}
	case f.QID == 0:
		if other := sub.otherHostID(host, d.HostID); other != nil {
			return nil, secondIdentifier(other)
		}
	}
	return sub, notReady(entry)
}
