package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host/internal/association"
)

// ErrReserved reports a command that conflicts with another host's reservation, or a reservation command with a key
// that is not this host's.
var ErrReserved = errors.New("reservation conflict")

// RegisterOptions modify how a key is registered or unregistered.
type RegisterOptions struct {
	// IgnoreKey replaces or removes the host's key, whatever it is (IEKEY).
	IgnoreKey bool
	// Persist says whether registrations and reservations are to survive a power loss (CPTPL).
	Persist Persistence
}

// Persistence says whether registrations and reservations of a namespace survive a power loss.
type Persistence uint8

const (
	PersistUnchanged Persistence = Persistence(capsule.PersistNoChange)
	PersistNever     Persistence = Persistence(capsule.PersistClear)
	PersistAlways    Persistence = Persistence(capsule.PersistSet)
)

// Reservations has the commands with which hosts share a namespace (NVMe base 2.0, 8.19): registrants can reserve it,
// as [capsule.ReservationType] describes. If the controller does not support them, they return an [ErrUnsupported].
type Reservations struct{ ns *Namespace }

// Reservations returns access to the namespace's reservations.
func (n *Namespace) Reservations() Reservations { return Reservations{n} }

// Register makes the host a registrant of the namespace, which may acquire a reservation. All controllers of a host are
// one registrant.
func (rs Reservations) Register(ctx context.Context, key capsule.ReservationKey, o RegisterOptions) error {
	return rs.register(ctx, capsule.RegisterKey, capsule.ReservationKeys{Other: key}, o)
}

// Replace replaces the host's key. With IgnoreKey, old need not be the host's key, and the host need not be registered.
func (rs Reservations) Replace(ctx context.Context, old, key capsule.ReservationKey, o RegisterOptions) error {
	return rs.register(ctx, capsule.ReplaceKey, capsule.ReservationKeys{Current: old, Other: key}, o)
}

// Unregister removes the host from the registrants. If the host alone holds the reservation, that is released.
func (rs Reservations) Unregister(ctx context.Context, key capsule.ReservationKey, o RegisterOptions) error {
	return rs.register(ctx, capsule.UnregisterKey, capsule.ReservationKeys{Current: key}, o)
}

func (rs Reservations) register(ctx context.Context, action uint8, keys capsule.ReservationKeys, o RegisterOptions) error {
	switch {
	case o.IgnoreKey && !rs.supports(capsule.RESCAPIgnoreKey):
		return fmt.Errorf("%w: registering whatever the key is (IEKEY)", ErrUnsupported)
	case o.Persist == PersistAlways && !rs.supports(capsule.RESCAPPersist):
		return fmt.Errorf("%w: reservations that survive a power loss (PTPL)", ErrUnsupported)
	}
	f := capsule.ReservationCommand{Action: action, IgnoreKey: o.IgnoreKey, Persist: uint8(o.Persist)}
	return rs.reserve(ctx, capsule.IOReservationRegister, f, keys)
}

// Acquire acquires a reservation. The host must be registered with the key. If another host has a reservation, the
// error is [ErrReserved].
func (rs Reservations) Acquire(ctx context.Context, key capsule.ReservationKey, t capsule.ReservationType) error {
	if err := rs.hasType(t); err != nil {
		return err
	}
	f := capsule.ReservationCommand{Action: capsule.AcquireReservation, Type: t}
	return rs.reserve(ctx, capsule.IOReservationAcquire, f, capsule.ReservationKeys{Current: key})
}

// Preempt unregisters the hosts that have the victim's key. If they hold the reservation, this host takes it over, with
// type t. With abort, it also aborts their commands, and returns when these have ended.
func (rs Reservations) Preempt(ctx context.Context, key, victim capsule.ReservationKey, t capsule.ReservationType, abort bool) error {
	if err := rs.hasType(t); err != nil {
		return err
	}
	f := capsule.ReservationCommand{Action: capsule.PreemptReservation, Type: t}
	if abort {
		f.Action = capsule.PreemptAndAbort
	}
	return rs.reserve(ctx, capsule.IOReservationAcquire, f, capsule.ReservationKeys{Current: key, Other: victim})
}

// Release releases the host's reservation, which is of type t.
func (rs Reservations) Release(ctx context.Context, key capsule.ReservationKey, t capsule.ReservationType) error {
	f := capsule.ReservationCommand{Action: capsule.ReleaseReservation, Type: t}
	return rs.reserve(ctx, capsule.IOReservationRelease, f, capsule.ReservationKeys{Current: key})
}

// Clear releases the reservation and removes all registrants.
func (rs Reservations) Clear(ctx context.Context, key capsule.ReservationKey) error {
	f := capsule.ReservationCommand{Action: capsule.ClearReservation}
	return rs.reserve(ctx, capsule.IOReservationRelease, f, capsule.ReservationKeys{Current: key})
}

// Mask reads which reservation notifications are masked: 1<<1 registration preempted, 1<<2 reservation released, 1<<3
// reservation preempted.
func (rs Reservations) Mask(ctx context.Context) (uint32, error) {
	return rs.ns.controller.Features().value(ctx, capsule.FeatureReservationMask, 0, rs.ns.io.ID)
}

// SetMask sets which reservation notifications are masked; see Mask.
func (rs Reservations) SetMask(ctx context.Context, mask uint32) error {
	return rs.ns.controller.Features().setValue(ctx, capsule.FeatureReservationMask, mask, rs.ns.io.ID)
}

// reserve sends a reservation command. Linux requires 16 bytes of keys with each.
func (rs Reservations) reserve(ctx context.Context, op capsule.IOOpcode, f capsule.ReservationCommand, keys capsule.ReservationKeys) error {
	if err := rs.ns.controller.supports(capsule.ONCSReservations); err != nil {
		return err
	}
	cmd := capsule.Command{Opcode: capsule.Opcode(op)}
	f.Put(&cmd)
	b := make([]byte, capsule.ReservationKeysSize)
	keys.Encode(b)
	return second(rs.ns.Execute(ctx, cmd, b))
}

// supports reports whether a bit of RESCAP is set.
func (rs Reservations) supports(bit uint8) bool { return rs.ns.Identify().RESCAP&bit != 0 }

func (rs Reservations) hasType(t capsule.ReservationType) error {
	switch {
	case !t.Valid():
		return fmt.Errorf("unknown type of reservation: %d", t)
	case !rs.supports(1 << t): // RESCAP has a bit for each type, with its number
		return fmt.Errorf("%w: reservations of type %d on namespace %d", ErrUnsupported, t, rs.ns.io.ID)
	}
	return nil
}

// A ReservationReport lists the registrants of a namespace, and which of them hold the reservation.
type ReservationReport struct {
	Generation  uint32 // counts changes of registrants
	Type        capsule.ReservationType
	Persistent  bool // registrations and the reservation survive a power loss (PTPL)
	Registrants []capsule.ReservationRegistrant
}

// Holds reports whether a host holds the reservation.
func (r *ReservationReport) Holds(id capsule.HostID) bool {
	for i := range r.Registrants {
		if x := &r.Registrants[i]; x.Host == id && x.Holds&1 != 0 {
			return true
		}
	}
	return false
}

// reportReads bounds how often a report is read if it grows meanwhile.
const reportReads = 5

// Report reads the reservation status of the namespace.
func (rs Reservations) Report(ctx context.Context) (*ReservationReport, error) {
	if err := rs.ns.controller.supports(capsule.ONCSReservations); err != nil {
		return nil, err
	}
	for size, tries := capsule.IdentifySize, 0; tries < reportReads; tries++ {
		b := make([]byte, size)
		cmd := capsule.Command{Opcode: capsule.Opcode(capsule.IOReservationReport)}
		capsule.ReservationReport{Length: uint64(size), Extended: true}.Put(&cmd)
		if _, err := rs.ns.Execute(ctx, cmd, b); err != nil {
			return nil, err
		}
		r, whole, err := readReservations(b)
		if err != nil || whole <= size {
			return r, err
		}
		if size = (whole + association.Page - 1) &^ (association.Page - 1); size > rs.ns.controller.limits.Write {
			return nil, fmt.Errorf("report of %d registrants is longer than the controller can send", (whole-capsule.ReservationStatusSize)/capsule.ReservationRegistrantSize)
		}
	}
	return nil, fmt.Errorf("reservation report grew during each of %d attempts to read it", reportReads)
}

// readReservations decodes a report. whole is its full length, which may exceed len(b).
func readReservations(b []byte) (r *ReservationReport, whole int, err error) {
	t, err := capsule.ParseReservationTable(b, true)
	if err != nil {
		return nil, 0, err
	}
	whole = capsule.ReservationStatusSize + int(t.Registrants)*capsule.ReservationRegistrantSize
	return &ReservationReport{Generation: t.Generation, Type: t.Type, Persistent: t.Persist&1 != 0, Registrants: t.Hosts}, whole, nil
}
