package reservation

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// MaxRegistrants is how many hosts can be registered with one namespace. It bounds the size of a state.
const MaxRegistrants = 1024

// MaxOfName is how many registrations one NQN can have. A host has one identifier at a time, but earlier ones stay
// registered until they are removed.
const MaxOfName = 8

// A Registrant is a host with its key.
type Registrant struct {
	Host capsule.HostID
	Key  capsule.ReservationKey
	// NQN is the host's NQN at the registration. Other NQNs cannot use the identifier as long as it is registered.
	// It is empty if the host has none, or the record was saved by a version without NQNs.
	NQN nvmeof.NQN
}

// A State is a namespace's registrants and the reservation that one or all of them hold. The zero value has
// neither.
type State struct {
	Generation  uint32 // number of changes of the registrants; wraps
	Type        capsule.ReservationType
	Holder      capsule.HostID // zero if Type is none or for all registrants
	Persist     bool           // across a power loss
	Registrants []Registrant   // oldest first; never modified
}

// Access says how a command uses the blocks of a namespace.
type Access uint8

const (
	Read  Access = 1 << iota // of the read command group
	Write                    // of the write command group
	None  Access = 0         // neither: never in conflict
)

// Empty reports whether no host is registered.
func (s *State) Empty() bool { return len(s.Registrants) == 0 }

// A Guard is a state in a form for checking commands: it looks up registrants in constant time.
type Guard struct {
	*State
	hosts map[capsule.HostID]struct{} // registered
	// Lost means that the state is unknown, since another target serves the namespace.
	Lost bool
}

// NewGuard returns the guard of a state, or nil if nothing is reserved.
func NewGuard(s *State) *Guard {
	if s.Type == capsule.ReservationNone {
		return nil
	}
	g := &Guard{State: s, hosts: make(map[capsule.HostID]struct{}, len(s.Registrants))}
	for _, r := range s.Registrants {
		g.hosts[r.Host] = struct{}{}
	}
	return g
}

// Closed returns the guard of a namespace whose state is lost. It allows nothing.
func Closed() *Guard { return &Guard{State: new(State), Lost: true} }

func (g *Guard) registered(host capsule.HostID) bool {
	_, found := g.hosts[host]
	return found
}

// Allows reports whether a host's command may be executed, by the table of command behaviour in the presence of a
// reservation (NVMe base 2.0, 8.19, and NVM command set 1.0, 5.9).
func (s *Guard) Allows(host capsule.HostID, a Access) bool {
	if s.Lost {
		return false
	}
	switch s.Type {
	case capsule.ReservationNone:
		return true
	case capsule.ReservationWriteExclusive:
		return a&Write == 0 || s.Holder == host
	case capsule.ReservationExclusiveAccess:
		return a == None || s.Holder == host
	case capsule.ReservationWriteExclusiveRegistrantsOnly, capsule.ReservationWriteExclusiveAllRegistrants:
		return a&Write == 0 || s.registered(host)
	}
	return a == None || s.registered(host)
}

// Holds reports whether a host is a holder of the reservation.
func (s *State) Holds(host capsule.HostID) bool {
	switch {
	case s.Type == capsule.ReservationNone:
		return false
	case s.Type.AllRegistrants():
		return s.registered(host)
	}
	return s.Holder == host
}

func (s *State) registered(host capsule.HostID) bool { return s.find(host) >= 0 }

func (s *State) find(host capsule.HostID) int {
	for i := range s.Registrants {
		if s.Registrants[i].Host == host {
			return i
		}
	}
	return -1
}

// Other returns the NQN, other than nqn, that is registered with a host identifier.
func (s *State) Other(id capsule.HostID, nqn nvmeof.NQN) (other nvmeof.NQN, found bool) {
	i := s.find(id)
	if i < 0 || s.Registrants[i].NQN == "" || s.Registrants[i].NQN == nqn {
		return "", false
	}
	return s.Registrants[i].NQN, true
}

// Registered reports whether an NQN is registered with a host identifier.
func (s *State) Registered(id capsule.HostID, nqn nvmeof.NQN) bool {
	i := s.find(id)
	return i >= 0 && s.Registrants[i].NQN == nqn
}

// proves reports whether a host is registered with that key.
func (s *State) proves(host capsule.HostID, key capsule.ReservationKey) bool {
	i := s.find(host)
	return i >= 0 && s.Registrants[i].Key == key
}

// Check reports whether a state that was loaded is consistent.
func (s *State) Check() bool {
	hosts := make(map[capsule.HostID]struct{}, len(s.Registrants))
	for _, r := range s.Registrants {
		if hosts[r.Host] = struct{}{}; r.Key == 0 {
			return false
		}
	}
	if len(hosts) < len(s.Registrants) {
		return false
	}
	switch {
	case len(s.Registrants) > MaxRegistrants:
		return false
	case s.Type == capsule.ReservationNone:
		return s.Holder == capsule.HostID{}
	case !s.Type.Valid():
		return false
	case s.Type.AllRegistrants():
		return len(s.Registrants) > 0 && s.Holder == capsule.HostID{}
	}
	return s.registered(s.Holder)
}

// reserve makes a host the holder.
func (s *State) reserve(t capsule.ReservationType, host capsule.HostID) {
	s.Type, s.Holder = t, host
	if t.AllRegistrants() {
		s.Holder = capsule.HostID{}
	}
}

func (s *State) unreserve() { s.Type, s.Holder = capsule.ReservationNone, capsule.HostID{} }

// without returns the registrants except those for which drop returns true.
func (s *State) without(drop func(Registrant) bool) []Registrant {
	return slices.DeleteFunc(slices.Clone(s.Registrants), drop)
}
