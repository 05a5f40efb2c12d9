package reservation

import (
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Command is one of the three commands that change a state.
type Command struct {
	Opcode capsule.IOOpcode // Register, Acquire or Release
	Host   capsule.HostID
	NQN    nvmeof.NQN // of the host
	Fields capsule.ReservationCommand
	Keys   capsule.ReservationKeys // of Release only the first is used

	// CanPersist means that the state can be saved, to survive a power loss.
	CanPersist bool
}

// A Notice is sent to all controllers of a host.
type Notice struct {
	Host capsule.HostID
	What capsule.ReservationNotice
}

// An Outcome is the result of a command, apart from the state.
type Outcome struct {
	Status  capsule.Status
	Notices []Notice
	Abort   []capsule.HostID // hosts whose commands must end before this one completes
}

const (
	conflict = capsule.StatusReservationConflict | capsule.StatusDNR
	invalid  = capsule.StatusInvalidField | capsule.StatusDNR
)

// Apply executes a command. If the status is an error, the state is unchanged.
func (s State) Apply(c Command) (State, Outcome) {
	next, out := s, Outcome{}
	if _, found := s.Other(c.Host, c.NQN); found {
		return s, fail(conflict) // another host NQN is registered with the host identifier
	}
	switch c.Opcode {
	case capsule.IOReservationRegister:
		out = next.register(c)
	case capsule.IOReservationAcquire:
		out = next.acquire(c)
	case capsule.IOReservationRelease:
		out = next.release(c)
	default:
		out.Status = capsule.StatusInvalidOpcode | capsule.StatusDNR
	}
	if !out.Status.OK() {
		return s, Outcome{Status: out.Status}
	}
	return next, out
}

func fail(s capsule.Status) Outcome { return Outcome{Status: s} }

// register executes Reservation Register (NVMe base 2.0, 8.19.2 to 8.19.4).
func (s *State) register(c Command) (out Outcome) {
	switch c.Fields.Persist {
	case capsule.PersistNoChange:
	case capsule.PersistClear:
		defer s.setPersist(&out, false)
	case capsule.PersistSet:
		if !c.CanPersist {
			return fail(invalid)
		}
		defer s.setPersist(&out, true)
	default:
		return fail(invalid)
	}
	at := s.find(c.Host)
	proved := c.Fields.IgnoreKey || at >= 0 && s.Registrants[at].Key == c.Keys.Current
	switch c.Fields.Action {
	case capsule.RegisterKey:
		switch {
		case c.Keys.Other == 0:
			return fail(invalid) // when it is preempted, 0 stands for all registrants
		case at < 0:
			return s.add(c)
		case s.Registrants[at].Key != c.Keys.Other:
			return fail(conflict)
		}
		s.Registrants = slices.Clone(s.Registrants)
		s.Registrants[at].NQN = c.NQN
		s.Generation++
		return Outcome{}
	case capsule.UnregisterKey:
		if at < 0 || !proved {
			return fail(conflict)
		}
		return s.unregister(c.Host)
	case capsule.ReplaceKey:
		switch {
		case c.Keys.Other == 0:
			return fail(invalid)
		case !proved:
			return fail(conflict)
		case at < 0: // allowed, even if the host is not registered
			return s.add(c)
		}
		s.Registrants = slices.Clone(s.Registrants)
		s.Registrants[at].Key, s.Registrants[at].NQN = c.Keys.Other, c.NQN
		s.Generation++
		return Outcome{}
	}
	return fail(invalid)
}

func (s *State) setPersist(out *Outcome, on bool) {
	if out.Status.OK() {
		s.Persist = on
	}
}

func (s *State) add(c Command) (out Outcome) {
	if out.Notices = s.makeRoom(c.NQN); len(s.Registrants) == MaxRegistrants {
		return fail(invalid)
	}
	s.Registrants = append(slices.Clone(s.Registrants), Registrant{c.Host, c.Keys.Other, c.NQN})
	s.Generation++
	return out
}

// makeRoom ends the oldest registration of an NQN that has the maximum number of them. Otherwise a host that uses
// ever more identifiers would permanently use up the registrations of others. The holder stays: only the commands
// for that end a reservation.
func (s *State) makeRoom(nqn nvmeof.NQN) []Notice {
	if nqn == "" { // hosts without an NQN are not one host
		return nil
	}
	n, oldest := 0, -1
	for i, r := range s.Registrants {
		if r.NQN != nqn {
			continue
		}
		if n++; oldest < 0 && (s.Type == capsule.ReservationNone || s.Holder != r.Host) {
			oldest = i
		}
	}
	if n < MaxOfName {
		return nil
	}
	gone := s.Registrants[oldest].Host
	s.Registrants = s.without(func(r Registrant) bool { return r.Host == gone })
	return []Notice{{gone, capsule.NoticeRegistrationPreempted}}
}

// unregister removes one host. Its reservation ends with it; a reservation of all registrants ends with the last
// of them.
func (s *State) unregister(host capsule.HostID) (out Outcome) {
	held := s.Holds(host)
	s.Registrants = s.without(func(r Registrant) bool { return r.Host == host })
	s.Generation++
	switch {
	case !held, s.Type.AllRegistrants() && len(s.Registrants) > 0:
	case s.Type.RegistrantsOnly():
		out.Notices = s.notify(host, capsule.NoticeReservationReleased)
		fallthrough
	default:
		s.unreserve()
	}
	return out
}

// notify returns a notice for every registrant except the given host.
func (s *State) notify(not capsule.HostID, what capsule.ReservationNotice) (out []Notice) {
	for _, r := range s.Registrants {
		if r.Host != not {
			out = append(out, Notice{r.Host, what})
		}
	}
	return out
}

// acquire executes Reservation Acquire (8.19.5 and 8.19.7).
func (s *State) acquire(c Command) Outcome {
	switch {
	case c.Fields.IgnoreKey || !c.Fields.Type.Valid() || c.Fields.Action > capsule.PreemptAndAbort:
		return fail(invalid)
	case !s.proves(c.Host, c.Keys.Current):
		return fail(conflict)
	case c.Fields.Action != capsule.AcquireReservation:
		return s.preempt(c)
	case s.Type == capsule.ReservationNone:
		s.reserve(c.Fields.Type, c.Host)
		return Outcome{}
	case s.Holds(c.Host) && s.Type == c.Fields.Type:
		return Outcome{}
	}
	return fail(conflict)
}

// preempt unregisters the hosts with a key, and takes over their reservation.
func (s *State) preempt(c Command) (out Outcome) {
	own, key, before := c.Host, c.Keys.Other, s.Type
	all := before.AllRegistrants()
	if key == 0 && !all {
		return fail(invalid)
	}
	theirs := func(r Registrant) bool { return r.Host != own && (r.Key == key || key == 0) }
	takes := all && key == 0
	if before != capsule.ReservationNone && !all {
		takes = s.proves(s.Holder, key) // the host itself may be the holder
	}
	if !takes && !slices.ContainsFunc(s.Registrants, theirs) {
		return fail(conflict)
	}
	for _, r := range s.Registrants {
		if theirs(r) {
			out.Notices = append(out.Notices, Notice{r.Host, capsule.NoticeRegistrationPreempted})
			if c.Fields.Action == capsule.PreemptAndAbort {
				out.Abort = append(out.Abort, r.Host)
			}
		}
	}
	s.Registrants = s.without(theirs)
	s.Generation++
	if takes {
		s.reserve(c.Fields.Type, own)
		if before != c.Fields.Type {
			out.Notices = append(out.Notices, s.notify(own, capsule.NoticeReservationReleased)...)
		}
	}
	return out
}

// release executes Reservation Release (8.19.6 and 8.19.8).
func (s *State) release(c Command) (out Outcome) {
	switch {
	case c.Fields.IgnoreKey || c.Fields.Action > capsule.ClearReservation:
		return fail(invalid)
	case !s.proves(c.Host, c.Keys.Current):
		return fail(conflict)
	case c.Fields.Action == capsule.ClearReservation:
		return s.clear(s.notify(c.Host, capsule.NoticeReservationPreempted))
	case !s.Holds(c.Host): // nothing to release
		return out
	case s.Type != c.Fields.Type:
		return fail(invalid)
	}
	if s.Type.RegistrantsOnly() || s.Type.AllRegistrants() {
		out.Notices = s.notify(c.Host, capsule.NoticeReservationReleased)
	}
	s.unreserve()
	return out
}

func (s *State) clear(notices []Notice) Outcome {
	s.unreserve()
	s.Registrants = nil
	s.Generation++
	return Outcome{Notices: notices}
}

// Clear is the Clear action of Reservation Release, executed by an administrator instead of a registrant. All
// registrants are notified.
func (s State) Clear() (State, Outcome) {
	var all []Notice
	for _, r := range s.Registrants {
		all = append(all, Notice{r.Host, capsule.NoticeReservationPreempted})
	}
	out := s.clear(all)
	return s, out
}

// Evict ends one registration as its preemption does, and the reservation that the host holds alone: no host takes
// it over. The status is a conflict if the host is not registered.
func (s State) Evict(host capsule.HostID) (State, Outcome) {
	if !s.registered(host) {
		return s, fail(conflict)
	}
	out := s.unregister(host)
	out.Notices = append(out.Notices, Notice{host, capsule.NoticeRegistrationPreempted})
	return s, out
}
