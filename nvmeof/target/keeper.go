package target

import (
	"fmt"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// ErrNotOwner is the error of a [ReservationKeeper] if another target serves the namespace by now. The command
// ends with ANA Inaccessible, so that its host retries it there, and so does every later one for the namespace.
var ErrNotOwner = storage.ErrNotOwner

// A ReservationKeeper keeps the reservations of one namespace for several targets; only the one that serves its
// ANA group changes them. The target makes one call at a time, and waits for its answer, which is given once, from
// any goroutine. A command of a host waits for it too, so a call that cannot be carried out has to end with an
// error in time.
type ReservationKeeper interface {
	// Load answers with the record that was kept last, or nil if there is none. It is called before the namespace
	// is served; after an error the namespace is not served.
	Load(answer func(record []byte, err error))
	// Keep answers when a record is kept such that the next target to serve the namespace finds it. It answers
	// ErrNotOwner, and keeps nothing, if another target has begun to serve the namespace.
	Keep(record []byte, answer func(err error))
	// Confirm answers without an error if no other target can have changed the record that was kept or loaded
	// last, and with ErrNotOwner if one has begun to serve the namespace. Only after that is a host told the state
	// of the reservation, or that a command conflicts with it.
	Confirm(answer func(err error))
}

// A keeperStore makes a keeper a [storage.ReservationStore].
type keeperStore struct{ ReservationKeeper }

// Load implements [storage.ReservationStore].
func (k keeperStore) Load() ([]byte, error) {
	type answer struct {
		record []byte
		err    error
	}
	answers := make(chan answer, 1)
	k.ReservationKeeper.Load(func(record []byte, err error) { answers <- answer{record, err} })
	a := <-answers
	return a.record, a.err
}

// Save implements [storage.ReservationStore].
func (k keeperStore) Save(record []byte) error {
	answers := make(chan error, 1)
	k.Keep(record, func(err error) { answers <- err })
	return <-answers
}

// Confirm implements [storage.SharedStore].
func (k keeperStore) Confirm() error {
	answers := make(chan error, 1)
	k.ReservationKeeper.Confirm(func(err error) { answers <- err })
	return <-answers
}

// reservationStore returns the store for the reservations of the namespace.
func (c *NamespaceConfig) reservationStore() storage.ReservationStore {
	if c.Keeper != nil {
		return keeperStore{c.Keeper}
	}
	return c.Reservations
}

// LastingReservations returns the part of a record of a [ReservationKeeper] that survives the end of all targets
// which serve the namespace, as hosts have requested (PTPL).
func LastingReservations(record []byte) ([]byte, error) { return reservation.Survive(record) }

// ReservationsChanged tells the target that the one which serves a namespace has changed its reservations to those
// of a record. Hosts that are connected here get their notices.
func (g *Gateway) ReservationsChanged(subsystem nvmeof.NQN, id capsule.NSID, record []byte) error {
	if g.target == nil {
		return errNoTarget
	}
	at := slices.IndexFunc(g.target.Subsystems(), func(s *Subsystem) bool { return s.nqn == subsystem })
	if at < 0 {
		return fmt.Errorf("reservations of namespace %d: there is no subsystem %s", id, subsystem)
	}
	s := g.target.Subsystems()[at]
	n := s.table().At(id)
	if n == nil || !n.Away() {
		return nil // it was removed, or is served here
	}
	state, of, notices, err := reservation.DecodeNotices(record)
	if err != nil {
		return err
	}
	if own := ownerOf(s.nqn, n.Identity, ""); !of.Same(own) {
		return fmt.Errorf("reservations of %v: the record is that of %v", own, of)
	}
	n.Remember(state)
	s.notifyReservation(id, notices)
	return nil
}

// controllersOf returns a function that lists the controllers of a host in a subsystem, at all targets. It returns
// nil if Gateway.Directory is not set: then reports name no controllers.
func controllersOf(c *Controller) func(capsule.HostID) []capsule.ControllerID {
	g, s := c.target.cfg.Gateway, c.subsystem
	if g == nil || g.Directory == nil {
		return nil
	}
	return func(host capsule.HostID) []capsule.ControllerID {
		ids := g.Directory(s.nqn, host)
		s.mu.Lock()
		defer s.mu.Unlock()
		for id, o := range s.controllers {
			if o.hostID == host {
				ids = append(ids, id)
			}
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
}
