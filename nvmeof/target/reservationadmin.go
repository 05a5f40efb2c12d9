package target

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A Reservation describes the registrants and the reservation of a namespace.
type Reservation struct {
	Type        capsule.ReservationType // 0: no reservation
	Generation  uint32                  // number of changes of the registrants
	Persist     bool                    // across a power loss
	Registrants []Registrant            // the oldest first
}

// A Registrant is a host that is registered for reservations, even while it is disconnected.
type Registrant struct {
	NQN       nvmeof.NQN // empty if the record has no names
	ID        capsule.HostID
	Key       capsule.ReservationKey
	Holds     bool // it holds the reservation, alone or with others
	Connected bool // to any subsystem
}

// Reservation returns the reservation of the namespace's store, which all subsystems that export it share.
func (n *Namespace) Reservation() Reservation {
	v := n.ns.Volume
	if v == nil {
		return Reservation{} // it is away
	}
	s := v.Reservations.State()
	out := Reservation{Type: s.Type, Generation: s.Generation, Persist: s.Persist}
	for _, r := range s.Registrants {
		out.Registrants = append(out.Registrants, Registrant{r.NQN, r.Host, r.Key, s.Holds(r.Host), n.subsystem.target.identifiers.InUse(r.Host)})
	}
	return out
}

// SaveReservations saves the part that survives a power loss again, after the [ReservationStore] has lost it.
func (n *Namespace) SaveReservations() error {
	if n.ns.Volume == nil {
		return nil // it is away
	}
	return n.ns.Volume.Reservations.Resave()
}

// ClearReservation ends the reservation and all registrations, as a registrant can by Reservation Release. If no
// registrant will ever return, nothing else can. It returns when the change is saved, if it has to be, and
// notifies all registrants; see also [Namespace.Unregister].
func (n *Namespace) ClearReservation() error {
	return n.administer("reservation and all registrations cleared by an administrator", (*storage.Reservations).Clear)
}

// Unregister ends the registration of one host as its preemption does, and the reservation that the host holds
// alone. It returns when the change is saved, if it has to be, and notifies the host and, as at the end of a
// reservation, the others. If the host is not registered, the error is a [StateError]. Commands that the host has
// under way complete.
func (n *Namespace) Unregister(host capsule.HostID) error {
	var name nvmeof.NQN
	for _, r := range n.Reservation().Registrants {
		if r.ID == host {
			name = r.NQN
		}
	}
	return n.administer("registration of a host ended by an administrator", func(k *storage.Reservations) (reservation.Outcome, error) {
		out, err := k.Evict(host)
		if err == nil && !out.Status.OK() {
			err = fmt.Errorf("no host is registered with the identifier %v", uuid.UUID(host))
		}
		return out, err
	}, zap.String("host", string(name)), zap.Stringer("host-id", uuid.UUID(host)))
}

// administer makes an administrator's change of the reservation. It may block.
func (n *Namespace) administer(what string, change func(*storage.Reservations) (reservation.Outcome, error), about ...zap.Field) error {
	v, t := n.ns.Volume, n.subsystem.target
	if v == nil {
		return n.unfit(errors.New("this target does not have its store now"))
	}
	before := v.Reservations.State()
	out, err := change(v.Reservations)
	if err != nil { // the state has not changed
		return n.unfit(err)
	}
	t.notifyReserved(v, out.Notices)
	n.recordEvent(events.Reservation, events.Warning, what)
	t.log.Info(what, append(about, zap.String("subsystem", string(n.subsystem.nqn)), zap.Uint32("nsid", uint32(n.ns.ID)), zap.String("export", v.Name),
		zap.Int("registrants before", len(before.Registrants)), zap.Int("now", len(v.Reservations.State().Registrants)),
		zap.Bool("reserved", v.Reservations.Guard() != nil))...)
	return nil
}
