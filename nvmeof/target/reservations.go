package target

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// A ReservationStore keeps the reservation of one volume through a power loss. Its
// methods may block, and are called one at a time.
type ReservationStore interface {
	// Load returns what was last saved, nil if nothing was.
	Load() ([]byte, error)
	// Save returns when b is durable; what was saved before stays if it fails.
	Save(b []byte) error
}

// A ReservationLocker is a ReservationStore that one target at a time may have.
type ReservationLocker interface {
	// Lock is called before Load, unlock when the volume is closed. It fails at once if
	// another target has it.
	Lock() (unlock func() error, err error)
}

// reservations are the registrants and the reservation of one volume, which all
// its namespaces share, in whatever subsystems. Commands change them one at a
// time, outside of the shards, since a change may have to be saved first. Readers
// take no lock.
type reservations struct {
	store ReservationStore // nil: nothing survives
	mu    sync.Mutex       // changes
	// unlock is called at the end; under Target.opening.
	unlock func() error
	state  atomic.Pointer[reservation.State]
	guard  atomic.Pointer[reservation.State] // the state while something is reserved, else nil
}

// newReservations loads what the store has, if there is one.
func newReservations(store ReservationStore) (*reservations, error) {
	v := &reservations{store: store, unlock: func() error { return nil }}
	if l, ok := store.(ReservationLocker); ok {
		var err error
		if v.unlock, err = l.Lock(); err != nil {
			return nil, err
		}
	}
	var s reservation.State
	if store != nil {
		b, err := store.Load()
		if err == nil && b != nil {
			s, err = reservation.Decode(b)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: restore what keeps them from a backup, or remove it if no host counts on a reservation", err), v.unlock())
		}
	}
	v.publish(&s)
	return v, nil
}

func (v *reservations) publish(s *reservation.State) {
	v.state.Store(s)
	if s.Type == capsule.ReservationNone {
		s = nil
	}
	v.guard.Store(s)
}

// change makes the next state of the present one and saves it, if either is to
// survive. It may block.
func (v *reservations) change(f func(reservation.State) (reservation.State, reservation.Outcome)) (reservation.Outcome, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.state.Load()
	next, out := f(*before)
	if !out.Status.OK() {
		return out, nil
	}
	if v.store != nil && (before.Persist || next.Persist) {
		b, err := next.Encode()
		if err == nil {
			err = v.store.Save(b)
		}
		if err != nil {
			return reservation.Outcome{Status: capsule.StatusInternalError}, err
		}
	}
	v.publish(&next)
	return out, nil
}

// capabilities is RESCAP.
func (v *reservations) capabilities() uint8 {
	c := capsule.RESCAPAllTypes | capsule.RESCAPIgnoreKey
	if v.store != nil {
		c |= capsule.RESCAPPersist
	}
	return c
}

// openReservations are those of a volume that is being opened. Called with opening
// held.
func (t *Target) openReservations(store ReservationStore) (*reservations, error) {
	for v := range t.volumes.all {
		if store != nil && same(v.reservations.store, store) {
			return nil, fmt.Errorf("its reservations would be kept where those of %s are: name another place", v.name)
		}
	}
	return newReservations(store)
}

// same compares what implements an interface, where that can be compared.
func same(a, b any) bool {
	t := reflect.TypeOf(a)
	return t != nil && t == reflect.TypeOf(b) && t.Comparable() && a == b
}

// conflicts reports whether another host's reservation keeps the command away from
// the namespace.
func (r *request) conflicts(v *volume) bool {
	guard := v.reservations.guard.Load()
	return guard != nil && !guard.Allows(r.queue.controller.hostID, r.io.access)
}

// tell gives notices to the hosts' controllers in all subsystems that export the
// volume.
func (v *reservations) tell(t *Target, notices []reservation.Notice) {
	if len(notices) == 0 {
		return
	}
	for _, s := range t.Subsystems() {
		for _, ns := range s.Namespaces() {
			if ns.reservations == v {
				s.tellReservation(ns.id, notices)
			}
		}
	}
}

func (s *Subsystem) tellReservation(id capsule.NSID, notices []reservation.Notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		for _, n := range notices {
			if c.hostID == n.Host && c.rights.Load().See(id) {
				c.do(func() { c.reservationNotice(id, n.What) })
			}
		}
	}
}

// logReservation is one line for a command of which nothing came because the change
// could not be saved.
func (r *request) logReservation(err error) {
	if err == nil {
		return
	}
	c, ns := r.queue.controller, r.gate.ns
	r.queue.target.warn("reservation not saved, command failed",
		zap.Stringer("command", capsule.IOOpcode(r.cmd.Opcode)), zap.String("host", c.hostNQN),
		zap.Uint32("nsid", uint32(ns.id)), zap.String("export", ns.name), zap.Error(err))
}
