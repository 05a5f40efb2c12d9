package target

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/shape"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/life"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/state"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// MovedVersion is the version of the record in a [Moved]. A process accepts only records of its own version.
const MovedVersion = 6

// Moved is the state of a target's associations on its way to another process, or to another Target: see
// [Mover.Export] and [Adopt].
type Moved struct {
	// Devices are the states of the devices, with their file descriptors, which the other process opens before
	// Adopt. MarshalBinary does not include them.
	Devices []MovedDevice

	record movedRecord
}

// MovedDevice is the state of one device.
type MovedDevice struct {
	Name   string // Attrs().Name
	Device rdmatransport.Device
	Moved  *rdmatransport.Moved
}

// movedRecord has exported fields for encoding/gob.
type movedRecord struct {
	At         time.Duration // when the target gave up the associations, by Target.clock
	Generation uint64        // of the discovery log
	Subsystems []movedSubsystem
	Workers    []movedWorker
}

// movedSubsystem is the state of a subsystem that hosts have seen and that is not in the configuration.
type movedSubsystem struct {
	NQN         nvmeof.NQN
	Progress    uint32
	Life        life.Record
	Last        capsule.ControllerID
	Generation  uint32
	ANACount    uint64 // the highest change count of its ANA log, through any listener
	Past        []movedLineage
	Namespaces  []movedNamespace
	Controllers []movedController
}

type movedLineage struct {
	Identity   storage.Identity
	Shift      uint
	Generation uint32
	Successor  bool
}

type movedNamespace struct {
	Identity   storage.Identity
	Away       bool
	Protection capsule.WriteProtection
	Reserved   reservation.State
}

type movedController struct {
	ID        capsule.ControllerID
	HostNQN   nvmeof.NQN
	HostID    capsule.HostID
	Connected time.Time
	Silent    time.Duration // time since the host's last command or acknowledgement
	Lapse     time.Duration // time until the association expires if the host stays silent; 0: never

	CC            capsule.CC
	CSTS          capsule.CSTS
	KeepAlive     state.MovedKeepAlive
	Events        state.MovedEvents
	Changed       state.MovedChanges
	Unidentified  state.MovedSuccessors
	Notices       state.MovedNotices
	Features      movedFeatures
	Warned        uint8
	Persistent    []byte
	Durable       bool
	Late          bool
	Protested     bool
	Generation    uint64
	Granted       int
	Ready         bool
	Authenticated bool
	Written       state.MovedWritten
	ErrorCount    uint64
	ErrorEntries  []capsule.ErrorLogEntry

	Born       uint32
	Presumed   bool
	Identified []movedIdentification
}

type movedIdentification struct {
	ID         capsule.NSID
	Generation uint32
}

type movedFeatures struct {
	Values     []uint32
	Timestamp  uint64
	Age        time.Duration // of the timestamp
	Stamped    bool
	HostConfig []byte
	Limits     health.MovedLimits
}

// movedWorker has the queues of one shard, the admin queues first.
type movedWorker struct {
	Device string
	Index  int          // of the device's shards
	Queues []movedQueue // among the shards of the device
}

type movedQueue struct {
	ID            capsule.QID
	Entries       uint32
	Listener      netip.AddrPort
	Local, Remote netip.AddrPort
	Subsystem     nvmeof.NQN           // empty: no Connect command has arrived
	Controller    capsule.ControllerID // likewise
	Written       state.MovedWritten
	Wire          fabric.MovedQueue
}

// movedMagic begins the record. It is followed by the version and a checksum of the record's types: gob decodes a
// record of other types too, and silently ignores fields that it does not know.
const movedMagic = "nvmeof associations\n"

func movedTypes() shape.Sum { return shape.Of(movedRecord{}) }

// MarshalBinary implements [encoding.BinaryMarshaler].
func (m *Moved) MarshalBinary() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(movedMagic)
	b.Write(binary.LittleEndian.AppendUint32(nil, MovedVersion))
	types := movedTypes()
	b.Write(types[:])
	if err := gob.NewEncoder(&b).Encode(&m.record); err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	return b.Bytes(), nil
}

const insteadOfMoving = "end that process, and start this one: hosts reconnect by themselves, but the data of memory namespaces is lost"

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. It does not change Devices.
func (m *Moved) UnmarshalBinary(b []byte) error {
	rest, ok := bytes.CutPrefix(b, []byte(movedMagic))
	if !ok || len(rest) < 4 {
		return errors.New("target: not a record of associations")
	}
	if v := binary.LittleEndian.Uint32(rest); v != MovedVersion {
		return fmt.Errorf("target: the running process hands over associations in version %d, and this program accepts version %d; %s", v, MovedVersion, insteadOfMoving)
	}
	types := movedTypes()
	rest, ok = bytes.CutPrefix(rest[4:], types[:])
	if !ok {
		return fmt.Errorf("target: the running process hands over associations in version %d, but was built from other sources of that version; %s", MovedVersion, insteadOfMoving)
	}
	m.record = movedRecord{}
	if err := gob.NewDecoder(bytes.NewReader(rest)).Decode(&m.record); err != nil {
		return fmt.Errorf("target: record of associations: %w", err)
	}
	return nil
}

// Associations returns the number of controllers.
func (m *Moved) Associations() (n int) {
	for i := range m.record.Subsystems {
		n += len(m.record.Subsystems[i].Controllers)
	}
	return n
}

// Served reports whether hosts could use a namespace.
func (m *Moved) Served(subsystem nvmeof.NQN, id capsule.NSID) bool {
	x := m.subsystem(subsystem)
	return x != nil && slices.ContainsFunc(x.Namespaces, func(n movedNamespace) bool { return n.Identity.ID == id && !n.Away })
}

// Connected reports whether a host of that name has a controller.
func (m *Moved) Connected(subsystem, host nvmeof.NQN) bool {
	x := m.subsystem(subsystem)
	return x != nil && slices.ContainsFunc(x.Controllers, func(c movedController) bool { return c.HostNQN == host })
}

// subsystem finds the record of a subsystem, or returns nil.
func (m *Moved) subsystem(nqn nvmeof.NQN) *movedSubsystem {
	i := slices.IndexFunc(m.record.Subsystems, func(s movedSubsystem) bool { return s.NQN == nqn })
	if i < 0 {
		return nil
	}
	return &m.record.Subsystems[i]
}
