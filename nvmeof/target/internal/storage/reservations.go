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

// A ReservationStore keeps what Save was given through a power loss. Its methods may
// block, and are called one at a time.
type ReservationStore interface {
	Load() ([]byte, error) // what was last saved, nil if nothing was
	Save(b []byte) error   // returns when b is durable; what was saved before stays if it fails
}

// A RecordError is why what a store has cannot be used. It ends with what to do, which is to remove the store's
// file where nobody relies on that: how, who made the store may say after it.
type RecordError struct {
	Store any // which was given to the target
	Err   error
}

func (e *RecordError) Error() string { return e.Err.Error() }

func (e *RecordError) Unwrap() error { return e.Err }

// ErrNotOwner says that another target serves the namespace by now.
var ErrNotOwner = errors.New("another target serves the namespace by now")

// A SharedStore is a ReservationStore that several targets read: it is given every state, and
// whoever serves the namespace after this target goes on with the last one. Its Save and Confirm
// fail with ErrNotOwner if another target has begun to.
type SharedStore interface {
	ReservationStore
	Confirm() error // returns when nobody else can have changed what was last saved or loaded
}

// A ReservationLocker is a ReservationStore that one target at a time may use.
type ReservationLocker interface {
	Lock() (unlock func() error, err error) // before Load
}

// A Reservations has the registrants and the reservation of one volume, which all its
// namespaces share, in whatever subsystems.
type Reservations struct {
	store  ReservationStore  // nil: nothing survives
	owner  reservation.Owner // the namespace that names the store
	mu     sync.Mutex        // changes
	ended  bool              // under mu: the store may be another's
	unlock func() error
	// doubtful says that the store may have what was not acknowledged, since it failed when
	// that was saved. Under mu.
	doubtful bool
	shared   bool // store is a SharedStore; constant
	asked    atomic.Uint64
	// Of those that have asked up to answered, with the same answer, nobody asks the store once more.
	// Under mu.
	answered uint64
	answer   error
	state    atomic.Pointer[reservation.State]
	guard    atomic.Pointer[reservation.Guard] // of the state while something is reserved, else nil
}

// newReservations loads what the store has, if there is a store. With former ones, which are
// closed, it is what those had last: hosts were told that, whatever an earlier record says. But what
// several targets read has every state, also those that others have made since. A record of another
// owner is an error.
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

// Remembered are the reservations of a namespace that is away: nothing saves them.
func Remembered(s reservation.State) *Reservations {
	k := &Reservations{unlock: func() error { return nil }}
	k.publish(&s)
	return k
}

// Restore makes the state what another process had last, whose volume this was.
func (k *Reservations) Restore(s reservation.State) error {
	s.Persist = s.Persist && k.Persists()
	if reflect.DeepEqual(*k.State(), s) {
		return nil
	}
	_, err := k.change(k.Ask(), func(reservation.State) (reservation.State, reservation.Outcome) { return s, reservation.Outcome{} })
	return err
}

// Resave saves the state as it is, where what was saved is lost. Of a SharedStore nothing is: others have it.
func (k *Reservations) Resave() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended || k.store == nil || k.shared {
		return nil
	}
	err := k.save(k.state.Load(), nil)
	k.doubtful = err != nil
	return err
}

// CheckReservations reports whether newReservations would succeed.
func CheckReservations(store ReservationStore, owner reservation.Owner) error {
	_, _, err := readReservations(store, owner)
	return err
}

// HoldReservations reports whether a store, as that of another namespace, has reservations of the
// namespace. What cannot be read holds none: whoever uses that meets the error.
func HoldReservations(store ReservationStore, of reservation.Owner) bool {
	b, err := store.Load()
	if err != nil || b == nil {
		return false
	}
	s, owner, err := reservation.Decode(b)
	return err == nil && owner != reservation.Owner{} && owner.Same(of) && !s.Empty()
}

// loadReservations reads what a store has. A record that does not say of the namespace, as it is now,
// that it is its own is saved again, so that it does; if that fails the next change does it.
func loadReservations(store ReservationStore, owner reservation.Owner) (reservation.State, error) {
	s, known, err := readReservations(store, owner)
	if _, shared := store.(SharedStore); err == nil && !known && !shared {
		if b, err := s.Encode(owner); err == nil {
			_ = store.Save(b)
		}
	}
	return s, err
}

// readReservations reads what a store has, and reports whether that is known to be the owner's. Of
// another one that was at the same NSID nothing is taken over, and what was reserved there is an error.
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
		return reservation.State{}, true, nil // which stays there until there is another: it may come back
	}
	return s, false, &RecordError{Store: store, Err: fmt.Errorf("reservations%s are those of %v, not of %v: have two files changed places? Put the one of this namespace back; "+
		"if this one has the data of that one, give it that uuid; or remove the file if no host relies on a reservation", in, of, owner)}
}

func restoreAdvice(store ReservationStore, err error) error {
	return &RecordError{Store: store, Err: fmt.Errorf("%w: restore the file from a backup, or remove it if no host relies on a reservation", err)}
}

// End refuses changes from then on. It waits for one that is being saved.
func (k *Reservations) End() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
}

// Close lets another target use the store.
func (k *Reservations) Close() error { return k.unlock() }

// State is the state as it is now. It does not change.
func (k *Reservations) State() *reservation.State { return k.state.Load() }

// Guard is that of the state while something is reserved, else nil. Every command reads it.
func (k *Reservations) Guard() *reservation.Guard { return k.guard.Load() }

// Shared reports whether several targets have the state.
func (k *Reservations) Shared() bool { return k.shared }

// Persists reports whether a state can survive a power loss.
func (k *Reservations) Persists() bool { return k.store != nil }

// A Ticket is the turn of a command of a host that the store has to be asked for.
type Ticket uint64

// Ask notes that a command has come for which a SharedStore is asked. What the store answers to a
// question that is put after that holds for it too: of many that wait, as while a store is away, one
// does so for all.
func (k *Reservations) Ask() Ticket { return Ticket(k.asked.Add(1)) }

// Apply executes a command that changes the state. It may block. An error means that the
// state could not be saved, and has not changed.
func (k *Reservations) Apply(t Ticket, cmd reservation.Command) (reservation.Outcome, error) {
	return k.change(t, func(s reservation.State) (reservation.State, reservation.Outcome) { return s.Apply(cmd) })
}

// Clear ends all registrations, as an administrator does; see [reservation.State.Clear].
func (k *Reservations) Clear() (reservation.Outcome, error) {
	return k.change(k.Ask(), reservation.State.Clear)
}

// Evict ends a host's registration, as an administrator does; see [reservation.State.Evict].
func (k *Reservations) Evict(host capsule.HostID) (reservation.Outcome, error) {
	return k.change(k.Ask(), func(s reservation.State) (reservation.State, reservation.Outcome) { return s.Evict(host) })
}

// SetPersist sets whether the state survives a power loss. It may block. After an error
// nothing has changed.
func (k *Reservations) SetPersist(on bool) error {
	_, err := k.change(k.Ask(), func(s reservation.State) (reservation.State, reservation.Outcome) {
		s.Persist = on
		return s, reservation.Outcome{}
	})
	return err
}

// change computes the next state and saves it, if either is to survive. With an error the
// status is Internal Error.
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
	if persists := before.Persist || next.Persist; k.store != nil && (persists || k.doubtful) {
		err := k.save(&next, nil)
		k.doubtful = err != nil
		if err != nil && persists {
			k.restore(before)
			return reservation.Outcome{Status: k.Failure()}, err
		}
	}
	k.publish(&next)
	return out, nil
}

// changeShared is change where the store is a SharedStore. Called with mu held.
func (k *Reservations) changeShared(t Ticket, f func(reservation.State) (reservation.State, reservation.Outcome)) (reservation.Outcome, error) {
	switch {
	case k.lost():
		return reservation.Outcome{Status: k.Failure()}, ErrNotOwner
	case uint64(t) <= k.answered && k.answer != nil: // the store did not answer while this one waited
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
	if k.doubtful = err != nil; err != nil {
		return reservation.Outcome{Status: k.Failure()}, err
	}
	k.publish(&next)
	return out, nil
}

// Confirm returns the state if no others, which serve the namespace by now, can have changed it since
// the ticket was given. It may block.
func (k *Reservations) Confirm(t Ticket) (*reservation.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.confirm(t)
	return k.state.Load(), err
}

// confirm is Confirm with mu held. A state that the store may not have, since it did not answer as the
// next one was saved, is saved again: whoever comes after this target goes on with what hosts were told.
func (k *Reservations) confirm(t Ticket) error {
	switch {
	case !k.shared:
		return nil
	case k.ended: // the keeper is another's, as that of the same namespace when it is opened again
		return fmt.Errorf("its store is closed: %w", backend.ErrClosed)
	case k.lost():
		return ErrNotOwner
	case uint64(t) <= k.answered:
		return k.answer
	case k.doubtful:
		err := k.ask(func() error { return k.save(k.state.Load(), nil) })
		k.doubtful = err != nil
		return err
	}
	return k.ask(k.store.(SharedStore).Confirm)
}

// ask asks a SharedStore for all who wait. Called with mu held.
func (k *Reservations) ask(f func() error) error {
	all := k.asked.Load()
	err := f()
	if k.answered, k.answer = all, err; errors.Is(err, ErrNotOwner) {
		k.lose()
	}
	return err
}

// Failure is the status of a command whose change could not be saved. Of several targets
// another may be able to.
func (k *Reservations) Failure() capsule.Status {
	if k.shared {
		return capsule.StatusANAInaccessible
	}
	return capsule.StatusInternalError
}

// save saves a state, and for other targets the notices of the change.
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

// lose forgets the state, which is another target's: nothing is allowed any more.
func (k *Reservations) lose() {
	k.state.Store(new(reservation.State))
	k.guard.Store(reservation.Closed())
}

func (k *Reservations) lost() bool {
	g := k.guard.Load()
	return g != nil && g.Lost
}

// restore saves a state again after the next one could not be saved: the store may have that
// one, and a restart would find it. Called with mu held.
func (k *Reservations) restore(s *reservation.State) {
	k.doubtful = k.save(s, nil) != nil // then with the next change
}

func (k *Reservations) publish(s *reservation.State) {
	k.state.Store(s)
	k.guard.Store(reservation.NewGuard(s))
}

// ReservationCapabilities is RESCAP of a namespace whose reservations can, or cannot, survive a
// power loss.
func ReservationCapabilities(persists bool) uint8 {
	c := capsule.RESCAPAllTypes | capsule.RESCAPIgnoreKey
	if persists {
		c |= capsule.RESCAPPersist
	}
	return c
}
