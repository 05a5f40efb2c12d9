package storage

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// A ReservationStore keeps a record across a power loss. Its methods may block, and are called one at a time.
type ReservationStore interface {
	Load() ([]byte, error) // what was saved last, or nil if nothing was
	Save(b []byte) error   // returns when b is durable; if it fails, what was saved before stays
}

// A RecordError is why the record in a store cannot be used. Its text ends with the remedy: to remove the store's
// file if nothing relies on its contents. The owner of the store may append how.
type RecordError struct {
	Store any // as it was given to the target
	Err   error
}

func (e *RecordError) Error() string { return e.Err.Error() }

func (e *RecordError) Unwrap() error { return e.Err }

// ErrNotOwner means that another target serves the namespace now.
var ErrNotOwner = errors.New("another target serves the namespace now")

// A SharedStore is a ReservationStore that several targets read: every state is saved, and the next target that
// serves the namespace continues with the last one. Save and Confirm fail with ErrNotOwner if another target has
// begun to serve it.
type SharedStore interface {
	ReservationStore
	Confirm() error // returns when no other target can have changed what was saved or loaded last
}

// A ReservationLocker is a ReservationStore that only one target at a time may use.
type ReservationLocker interface {
	Lock() (unlock func() error, err error) // called before Load
}

// Reservations has the registrants and the reservation of one volume, which all namespaces of the volume share, in
// whatever subsystems.
type Reservations struct {
	store  ReservationStore  // nil: nothing survives
	owner  reservation.Owner // the namespace whose configuration names the store
	mu     sync.Mutex        // serializes changes
	ended  bool              // another target may use the store; under mu
	unlock func() error
	// uncertain means that the store may contain a state that was not acknowledged, since saving it failed. Under
	// mu.
	uncertain bool
	shared    bool // store is a SharedStore; constant
	asked     atomic.Uint64
	// Commands with tickets up to answered share the answer, without another request to the store. Under mu.
	answered uint64
	answer   error
	state    atomic.Pointer[reservation.State]
	guard    atomic.Pointer[reservation.Guard] // of the state; nil while nothing is reserved
}

// newReservations loads the record of the store, if there is a store. If former is set, which must be closed, its
// state is used instead: hosts have seen that, whatever an earlier record says. A SharedStore is an exception,
// since it has every state, including later ones of other targets. A record of another owner is an error.
func newReservations(store ReservationStore, owner reservation.Owner, former *Reservations) (*Reservations, error) {
	k := &Reservations{store: store, owner: owner, unlock: func() error { return nil }}
	_, k.shared = store.(SharedStore)
	if l, ok := store.(ReservationLocker); ok {
		var err error
		if k.unlock, err = l.Lock(); err != nil {
			return nil, err
		}
	}
	var s reservation.State
	if store != nil {
		var err error
		if s, err = loadReservations(store, owner); err != nil {
			return nil, errors.Join(err, k.unlock())
		}
	}
	k.publish(&s)
	if former == nil || k.shared {
		return k, nil
	}
	_, err := k.change(k.Ask(), func(reservation.State) (reservation.State, reservation.Outcome) {
		s := *former.State()
		s.Persist = s.Persist && k.Persists()
		return s, reservation.Outcome{}
	})
	if err != nil {
		return nil, errors.Join(err, k.unlock())
	}
	return k, nil
}

// Remembered returns the reservations of a namespace that is away. They are not saved.
func Remembered(s reservation.State) *Reservations {
	k := &Reservations{unlock: func() error { return nil }}
	k.publish(&s)
	return k
}

// Restore sets the last state of another process, to which the volume belonged.
func (k *Reservations) Restore(s reservation.State) error {
	s.Persist = s.Persist && k.Persists()
	if reflect.DeepEqual(*k.State(), s) {
		return nil
	}
	_, err := k.change(k.Ask(), func(reservation.State) (reservation.State, reservation.Outcome) { return s, reservation.Outcome{} })
	return err
}

// Resave saves the current state again, after the store has lost it. For a SharedStore it does nothing: others
// have the state.
func (k *Reservations) Resave() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended || k.store == nil || k.shared {
		return nil
	}
	err := k.save(k.state.Load(), nil)
	k.uncertain = err != nil
	return err
}

// CheckReservations returns the error with which newReservations would fail.
func CheckReservations(store ReservationStore, owner reservation.Owner) error {
	_, _, err := readReservations(store, owner)
	return err
}

// HoldReservations reports whether a store of another namespace has reservations of the namespace of. It returns
// false if the store cannot be read: its user gets the error.
func HoldReservations(store ReservationStore, of reservation.Owner) bool {
	b, err := store.Load()
	if err != nil || b == nil {
		return false
	}
	s, owner, err := reservation.Decode(b)
	return err == nil && owner != reservation.Owner{} && owner.Same(of) && !s.Empty()
}

// loadReservations reads the record of a store. If the record does not name the owner exactly, it is saved again
// with the owner; if that fails, the next change saves it.
func loadReservations(store ReservationStore, owner reservation.Owner) (reservation.State, error) {
	s, known, err := readReservations(store, owner)
	if _, shared := store.(SharedStore); err == nil && !known && !shared {
		if b, err := s.Encode(owner); err == nil {
			_ = store.Save(b)
		}
	}
	return s, err
}

// readReservations reads the record of a store, and reports whether it names exactly the owner. If it belongs to
// another namespace at the same NSID and is empty, it is ignored; a nonempty one is an error.
func readReservations(store ReservationStore, owner reservation.Owner) (s reservation.State, known bool, err error) {
	b, err := store.Load()
	switch {
	case err != nil:
		return s, false, restoreAdvice(store, err)
	case b == nil:
		return s, true, nil
	}
	s, of, err := reservation.Decode(b)
	in := ""
	if f, ok := store.(fmt.Stringer); ok {
		in = " in " + f.String()
	}
	switch {
	case err != nil:
		return s, false, restoreAdvice(store, fmt.Errorf("%w%s", err, in))
	case of.Same(owner):
		return s, of == owner, nil
	case of.At(owner) && s.Empty():
		return reservation.State{}, true, nil // stays in the store until the next save, since its namespace may return
	}
	return s, false, &RecordError{Store: store, Err: fmt.Errorf("reservations%s belong to %v, not to %v: if two files were swapped, put back the one of this namespace; "+
		"if this namespace has the data of the other one, give it the other's uuid; or remove the file if no host relies on a reservation", in, of, owner)}
}

func restoreAdvice(store ReservationStore, err error) error {
	return &RecordError{Store: store, Err: fmt.Errorf("%w: restore the file from a backup, or remove it if no host relies on a reservation", err)}
}

// End refuses later changes. It waits for a change that is being saved.
func (k *Reservations) End() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
}

// Close unlocks the store.
func (k *Reservations) Close() error { return k.unlock() }

// State returns the current state, which is immutable.
func (k *Reservations) State() *reservation.State { return k.state.Load() }

// Guard returns the guard of the state, or nil while nothing is reserved. Every command reads it.
func (k *Reservations) Guard() *reservation.Guard { return k.guard.Load() }

// Shared reports whether several targets share the state.
func (k *Reservations) Shared() bool { return k.shared }

// Persists reports whether a state can survive a power loss.
func (k *Reservations) Persists() bool { return k.store != nil }

// A Ticket numbers the commands for which a SharedStore has to be asked.
type Ticket uint64

// Ask returns a ticket for a command for which a SharedStore has to be asked. The answer to a request that is sent
// after that applies to the command too: when many wait, for example while a store is unavailable, one request
// serves all.
func (k *Reservations) Ask() Ticket { return Ticket(k.asked.Add(1)) }

// Apply executes a command that changes the state. It may block. An error means that the state could not be saved,
// and has not changed.
func (k *Reservations) Apply(t Ticket, cmd reservation.Command) (reservation.Outcome, error) {
	return k.change(t, func(s reservation.State) (reservation.State, reservation.Outcome) { return s.Apply(cmd) })
}

// Clear ends all registrations for an administrator; see [reservation.State.Clear].
func (k *Reservations) Clear() (reservation.Outcome, error) {
	return k.change(k.Ask(), reservation.State.Clear)
}

// Evict ends a host's registration for an administrator; see [reservation.State.Evict].
func (k *Reservations) Evict(host capsule.HostID) (reservation.Outcome, error) {
	return k.change(k.Ask(), func(s reservation.State) (reservation.State, reservation.Outcome) { return s.Evict(host) })
}

// SetPersist sets whether the state survives a power loss. It may block. After an error nothing has changed.
func (k *Reservations) SetPersist(on bool) error {
	_, err := k.change(k.Ask(), func(s reservation.State) (reservation.State, reservation.Outcome) {
		s.Persist = on
		return s, reservation.Outcome{}
	})
	return err
}

// change computes the next state and saves it, if either state has to survive. With an error the status is that of
// Failure.
func (k *Reservations) change(t Ticket, f func(reservation.State) (reservation.State, reservation.Outcome)) (reservation.Outcome, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return reservation.Outcome{Status: k.Failure()}, fmt.Errorf("its store is closed: %w", backend.ErrClosed)
	}
	if k.shared {
		return k.changeShared(t, f)
	}
	before := k.state.Load()
	next, out := f(*before)
	if !out.Status.OK() {
		return out, nil
	}
	if persists := before.Persist || next.Persist; k.store != nil && (persists || k.uncertain) {
		err := k.save(&next, nil)
		k.uncertain = err != nil
		if err != nil && persists {
			k.restore(before)
			return reservation.Outcome{Status: k.Failure()}, err
		}
	}
	k.publish(&next)
	return out, nil
}

// changeShared is change for a SharedStore. Called with mu held.
func (k *Reservations) changeShared(t Ticket, f func(reservation.State) (reservation.State, reservation.Outcome)) (reservation.Outcome, error) {
	switch {
	case k.lost():
		return reservation.Outcome{Status: k.Failure()}, ErrNotOwner
	case uint64(t) <= k.answered && k.answer != nil: // the store did not answer while this command waited
		return reservation.Outcome{Status: k.Failure()}, k.answer
	}
	next, out := f(*k.state.Load())
	if !out.Status.OK() {
		if err := k.confirm(t); err != nil {
			return reservation.Outcome{Status: k.Failure()}, err
		}
		return out, nil
	}
	err := k.ask(func() error { return k.save(&next, out.Notices) })
	if k.uncertain = err != nil; err != nil {
		return reservation.Outcome{Status: k.Failure()}, err
	}
	k.publish(&next)
	return out, nil
}

// Confirm returns the state, and an error unless it is certain that no other target can have changed it since the
// ticket was given. It may block.
func (k *Reservations) Confirm(t Ticket) (*reservation.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.confirm(t)
	return k.state.Load(), err
}

// confirm is Confirm with mu held. If the store may lack the current state, since it did not answer when the next
// one was saved, the state is saved again: the next target must continue with what hosts were told.
func (k *Reservations) confirm(t Ticket) error {
	switch {
	case !k.shared:
		return nil
	case k.ended: // the store may be used by others, such as the same namespace when it is opened again
		return fmt.Errorf("its store is closed: %w", backend.ErrClosed)
	case k.lost():
		return ErrNotOwner
	case uint64(t) <= k.answered:
		return k.answer
	case k.uncertain:
		err := k.ask(func() error { return k.save(k.state.Load(), nil) })
		k.uncertain = err != nil
		return err
	}
	return k.ask(k.store.(SharedStore).Confirm)
}

// ask sends a request to a SharedStore for all waiting commands. Called with mu held.
func (k *Reservations) ask(f func() error) error {
	all := k.asked.Load()
	err := f()
	if k.answered, k.answer = all, err; errors.Is(err, ErrNotOwner) {
		k.lose()
	}
	return err
}

// Failure returns the status of a command whose change could not be saved. If several targets share the state,
// another one may be able to save it.
func (k *Reservations) Failure() capsule.Status {
	if k.shared {
		return capsule.StatusANAInaccessible
	}
	return capsule.StatusInternalError
}

// save saves a state and, for other targets, the notices of the change.
func (k *Reservations) save(s *reservation.State, notices []reservation.Notice) error {
	encode := s.Encode
	if k.shared {
		encode = func(of reservation.Owner) ([]byte, error) { return s.EncodeAll(of, notices) }
	}
	b, err := encode(k.owner)
	if err == nil {
		err = k.store.Save(b)
	}
	return err
}

// lose drops the state, since another target serves the namespace. From then on nothing is allowed.
func (k *Reservations) lose() {
	k.state.Store(new(reservation.State))
	k.guard.Store(reservation.Closed())
}

func (k *Reservations) lost() bool {
	g := k.guard.Load()
	return g != nil && g.Lost
}

// restore saves a state again after the next one could not be saved: the store may have the next one, and a
// restart would find it. Called with mu held.
func (k *Reservations) restore(s *reservation.State) {
	k.uncertain = k.save(s, nil) != nil // if so, it is retried with the next change
}

func (k *Reservations) publish(s *reservation.State) {
	k.state.Store(s)
	k.guard.Store(reservation.NewGuard(s))
}

// ReservationCapabilities returns RESCAP of a namespace; persists means that its reservations can survive a power
// loss.
func ReservationCapabilities(persists bool) uint8 {
	c := capsule.RESCAPAllTypes | capsule.RESCAPIgnoreKey
	if persists {
		c |= capsule.RESCAPPersist
	}
	return c
}
