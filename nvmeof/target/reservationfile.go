package target

import (
	"encoding/hex"
	"strings"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/kept"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A ReservationStore keeps the reservation of one volume through a power loss. Its
// methods may block, and are called one at a time.
type ReservationStore interface {
	// Load returns what was last saved, nil if nothing was.
	Load() ([]byte, error)
	// Save returns when b is durable; what was saved before stays if it fails.
	Save(b []byte) error
}

// A RecordError is why what a [ReservationStore] or a [StateStore] has cannot be used. It ends with what to do, which
// is to remove the file where nobody relies on what it had: how, who made the store may say after it.
type RecordError = storage.RecordError

// A ReservationLocker is a ReservationStore that one target at a time may use.
type ReservationLocker interface {
	// Lock is called before Load, unlock when the volume is closed. It fails at once if
	// another target uses it.
	Lock() (unlock func() error, err error)
}

// A ReservationFile saves a reservation in the file of that name. The file is replaced as
// a whole, so that a power failure leaves the old content or the new; a file beside it,
// of the same name with ".lock", excludes other processes.
type ReservationFile string

func (f ReservationFile) file() kept.File { return kept.File{Name: string(f), What: "reservations"} }

// Lock implements [ReservationLocker]. The lock file is never removed.
func (f ReservationFile) Lock() (unlock func() error, err error) { return f.file().Lock() }

// Load implements [ReservationStore]. A file that does not exist yet is no error.
func (f ReservationFile) Load() ([]byte, error) { return f.file().Load() }

// Check reports what is wrong with the file, if it is there, without locking it.
func (f ReservationFile) Check() error {
	return storage.CheckReservations(f.file(), reservation.Owner{})
}

// CheckFor is Check for a namespace of a subsystem, as it is configured: a file that another
// namespace has written is wrong too.
func (f ReservationFile) CheckFor(subsystem nvmeof.NQN, c NamespaceConfig) error {
	return storage.CheckReservations(f.file(), c.owner(subsystem))
}

// HoldsFor reports whether the file, which is that of another namespace, has reservations of the
// one that is configured so, as it has where two have changed places.
func (f ReservationFile) HoldsFor(subsystem nvmeof.NQN, c NamespaceConfig) bool {
	return storage.HoldReservations(f.file(), c.owner(subsystem))
}

// owner is how a record of reservations names a namespace that is configured so.
func (c *NamespaceConfig) owner(subsystem nvmeof.NQN) reservation.Owner {
	return ownerOf(subsystem, storage.Identity{ID: c.NSID, UUID: c.UUID, NGUID: c.NGUID, EUI64: c.EUI64}, c.Name)
}

// ownerOf is how a record of reservations names a namespace. Of what is exported it has a path, or an
// image in its pool: other names are no one's own.
func ownerOf(subsystem nvmeof.NQN, i storage.Identity, export string) reservation.Owner {
	o := reservation.Owner{Subsystem: subsystem, NSID: i.ID}
	if strings.Contains(export, "/") {
		o.Export = export
	}
	if i.UUID != uuid.Nil {
		o.UUID = i.UUID.String()
	}
	if i.NGUID != [16]byte{} {
		o.NGUID = hex.EncodeToString(i.NGUID[:])
	}
	if i.EUI64 != [8]byte{} {
		o.EUI64 = hex.EncodeToString(i.EUI64[:])
	}
	return o
}

// Save implements [ReservationStore].
func (f ReservationFile) Save(b []byte) error { return f.file().Save(b) }
