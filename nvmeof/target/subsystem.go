package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// SubsystemConfig describes a subsystem. A zero field takes the default.
type SubsystemConfig struct {
	NQN    string // required
	Serial string // at most 20 ASCII characters; default: derived from the NQN
	Model  string // at most 40 ASCII characters; default "nvmeof"
}

// A Subsystem is what hosts connect to: namespaces and who may use them.
type Subsystem struct {
	target     *Target
	nqn        string
	serial     string
	model      string
	discovery  bool // the discovery subsystem, which has no namespaces
	hosts      hostList
	namespaces atomic.Pointer[namespaceTable]

	change sync.Mutex // held while the namespaces change, which waits for shards

	mu          sync.Mutex // controllers; shards take it, so nobody waits under it
	controllers map[capsule.ControllerID]*Controller
	last        capsule.ControllerID
}

func newSubsystem(t *Target, c SubsystemConfig) (*Subsystem, error) {
	f := capsule.MakeNQNField(c.NQN)
	if err := f.Check(); err != nil || f.String() != c.NQN {
		return nil, fmt.Errorf("subsystem %q: not a valid NQN: 1 to %d bytes of printable UTF-8", c.NQN, capsule.MaxNQN)
	}
	if c.Serial == "" {
		// Stable across restarts: hosts know their paths to a subsystem by it.
		sum := sha256.Sum256([]byte(c.NQN))
		c.Serial = hex.EncodeToString(sum[:10])
	}
	if c.Model == "" {
		c.Model = "nvmeof"
	}
	if len(c.Serial) > 20 || len(c.Model) > 40 {
		return nil, fmt.Errorf("subsystem %s: serial number %q or model %q is too long: at most 20 and 40 characters",
			c.NQN, c.Serial, c.Model)
	}
	s := &Subsystem{
		target: t, nqn: c.NQN, serial: c.Serial, model: c.Model,
		controllers: make(map[capsule.ControllerID]*Controller),
		last:        t.firstID,
	}
	s.namespaces.Store(new(namespaceTable))
	return s, nil
}

// NQN is the subsystem's name.
func (s *Subsystem) NQN() string { return s.nqn }

// AllowHost lets the host with that NQN connect.
func (s *Subsystem) AllowHost(nqn string) {
	s.hosts.allow(nqn)
	s.target.discoveryChanged()
}

// RemoveHost takes that back. Controllers that the host has stay.
func (s *Subsystem) RemoveHost(nqn string) {
	s.hosts.remove(nqn)
	s.target.discoveryChanged()
}

// AllowAnyHost lets every host connect, or only those allowed by name.
func (s *Subsystem) AllowAnyHost(on bool) {
	s.hosts.allowAny(on)
	s.target.discoveryChanged()
}

// table is the namespaces as they are now.
func (s *Subsystem) table() namespaceTable { return *s.namespaces.Load() }

// Namespaces lists the active namespaces in the order of their identifiers.
func (s *Subsystem) Namespaces() []*Namespace {
	var out []*Namespace
	for _, ns := range s.table() {
		if ns != nil {
			out = append(out, ns)
		}
	}
	return out
}

// join gives a new controller its identifier. It fails when there is none left
// (NVMe base 2.0, 3.1.1: the dynamic controller model).
func (s *Subsystem) join(c *Controller) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.controllers) >= s.target.cfg.MaxControllers {
		return false
	}
	for range capsule.ControllerIDMax {
		if s.last++; s.last > capsule.ControllerIDMax || s.last < capsule.ControllerIDMin {
			s.last = capsule.ControllerIDMin
		}
		if s.controllers[s.last] == nil {
			c.id = s.last
			s.controllers[c.id] = c
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
	}
}

func (s *Subsystem) controller(id capsule.ControllerID) *Controller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.controllers[id]
}

// otherHostID reports whether a controller of the same host NQN has another
// host identifier: one of the two is not who it says.
func (s *Subsystem) otherHostID(nqn string, id capsule.HostID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if c.hostNQN == nqn && c.hostID != id {
			return true
		}
	}
	return false
}
