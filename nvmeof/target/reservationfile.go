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

// A ReservationStore keeps the reservation of one volume across a power loss. Its methods may block, and are
// called one at a time.
type ReservationStore interface {
	// Load returns what was saved last, or nil if nothing was.
	Load() ([]byte, error)
	// Save returns when b is durable. If it fails, what was saved before stays.
	Save(b []byte) error
}

// A RecordError is why the record in a [ReservationStore] or a [StateStore] cannot be used. Its text ends with the
// remedy: to remove the file if nothing relies on its contents. The owner of the store may append how.
type RecordError = storage.RecordError

// A ReservationLocker is a ReservationStore that only one target at a time may use.
type ReservationLocker interface {
	// Lock is called before Load, and unlock when the volume is closed. It fails at once if another target has
	// locked the store.
	Lock() (unlock func() error, err error)
}

// A ReservationFile saves a reservation in the file of that name. The file is replaced as a whole, so that a power
// failure leaves the old content or the new. A file beside it, with the suffix ".lock", excludes other processes.
type ReservationFile string

func (f ReservationFile) file() kept.File { return kept.File{Name: string(f), What: "reservations"} }

// Lock implements [ReservationLocker]. The lock file is never removed.
func (f ReservationFile) Lock() (unlock func() error, err error) { return f.file().Lock() }

// Load implements [ReservationStore]. It is no error if the file does not exist yet.
func (f ReservationFile) Load() ([]byte, error) { return f.file().Load() }

// Check reports whether the file is damaged, without locking it. It is no error if the file does not exist.
func (f ReservationFile) Check() error {
	return storage.CheckReservations(f.file(), reservation.Owner{})
}

// CheckFor is Check for a namespace with this configuration: a file that another namespace has written is an error
// too.
func (f ReservationFile) CheckFor(subsystem nvmeof.NQN, c NamespaceConfig) error {
	return storage.CheckReservations(f.file(), c.owner(subsystem))
}

// HoldsFor reports whether the file, which belongs to another namespace, has reservations of the namespace with
// this configuration. That is so if two files have been exchanged.
func (f ReservationFile) HoldsFor(subsystem nvmeof.NQN, c NamespaceConfig) bool {
	return storage.HoldReservations(f.file(), c.owner(subsystem))
}

// owner returns the name, in a record of reservations, of a namespace with this configuration.
func (c *NamespaceConfig) owner(subsystem nvmeof.NQN) reservation.Owner {
	return ownerOf(subsystem, storage.Identity{ID: c.NSID, UUID: c.UUID, NGUID: c.NGUID, EUI64: c.EUI64}, c.Name)
}

// ownerOf returns the name of a namespace in a record of reservations. It contains the export only if that is a
// path, or an image with its pool: other names are not unique.
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
