package target

import (
	"fmt"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// ErrNotOwner is what a [ReservationKeeper] answers if another target serves the namespace by
// now. The command ends with ANA Inaccessible, so that its host retries it there, and so does
// every other one for the namespace from then on.
var ErrNotOwner = storage.ErrNotOwner

// A ReservationKeeper keeps the reservations of one namespace for several targets, of which the
// one that serves its ANA group alone changes them. The target has one call under way at a
// time, and waits for its answer, which is given once, from any goroutine: a command of a host
// waits for it too, so that one that cannot be carried out has to end with an error in time.
type ReservationKeeper interface {
	// Load answers with what was last kept, nil if nothing was. It is called before the
	// namespace is served, and after an error that is not.
	Load(answer func(record []byte, err error))
	// Keep answers when a record is kept such that whoever serves the namespace next finds
	// it; with ErrNotOwner if another target has begun to, and then nothing is kept.
	Keep(record []byte, answer func(err error))
	// Confirm answers without an error if no other target can have changed what was last kept or
	// loaded, and with ErrNotOwner if one has begun to serve the namespace. A host is told only
	// after that what the state is, and that a command is not allowed.
	Confirm(answer func(err error))
}

// A keeperStore is a keeper as a store.
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

// reservationStore is what saves the reservations of a namespace.
func (c *NamespaceConfig) reservationStore() storage.ReservationStore {
	if c.Keeper != nil {
		return keeperStore{c.Keeper}
	}
	return c.Reservations
}

// LastingReservations returns what of a record of a [ReservationKeeper] survives the end of all
// targets that serve the namespace: hosts decide whether it does.
func LastingReservations(record []byte) ([]byte, error) { return reservation.Survive(record) }

// ReservationsChanged says that the target which serves a namespace has changed its
// reservations to those of a record. Hosts that are connected here get their notices.
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
		return nil // it is removed, or is served here
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

// controllersOf lists the controllers of a host in a subsystem, of all targets; nil: hosts are
// told of none.
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
