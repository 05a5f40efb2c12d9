package life

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/sealed"
)

// A Record is the state of a subsystem at one time.
type Record struct {
	Running bool // the target that saved it had not ended yet, or had ended with unflushed data
	// Verifier changes if the machine restarted while Running. Boot identifies the boot of the machine in which
	// the record's target runs; empty: unknown.
	Verifier        capsule.WriteVerifier
	Boot            string
	PowerCycles     uint64
	UnsafeShutdowns uint64
	Errors          uint64 // number of entries of error logs
	On              time.Duration
	Cycles          []Cycle                    // the most recent ones, in order
	Namespaces      map[capsule.NSID]Namespace // includes those that have been removed
	// Departed has the namespaces that hosts had protected and whose NSIDs others have now, the oldest first: they
	// may return.
	Departed []Namespace
}

// maxDeparted limits Departed, to the number of namespaces that a subsystem can have.
const maxDeparted = 1 << 12

// A Cycle is a power cycle of the subsystem: a start of its target.
type Cycle struct {
	Number   uint64
	At       int64  // in milliseconds since 1970
	Firmware string // firmware revision
}

// Limits of the cycles in a record.
const (
	maxCycles   = 32
	maxFirmware = 8 // bytes of the field FR
)

// A Namespace is the state of one namespace, or of the last one that had its NSID.
type Namespace struct {
	UUID   uuid.UUID
	Counts health.Counts
	// Protection is what a host has set. A saved record does not contain protection that ends with a power cycle.
	Protection capsule.WriteProtection
}

// Begin returns the record for a target that starts with that firmware in a boot of the machine; r is the saved
// record. If the machine has restarted meanwhile, unflushed data is lost: then the verifier changes, derived from
// fresh.
func (r Record) Begin(now time.Time, firmware, boot string, fresh capsule.WriteVerifier) Record {
	switch {
	case r.Verifier == 0:
		r.Verifier = fresh
	case r.Running && r.Boot != boot:
		r.Verifier = r.Verifier.Next(fresh)
	}
	r.Boot = boot
	if r.Running {
		r.UnsafeShutdowns++
	}
	r.Running = true
	r.PowerCycles++
	r.Cycles = append(slices.Clip(r.Cycles), Cycle{r.PowerCycles, now.UnixMilli(), firmware[:min(len(firmware), maxFirmware)]})
	r.Cycles = r.Cycles[max(0, len(r.Cycles)-maxCycles):]
	r.Namespaces, r.Departed = maps.Clone(r.Namespaces), slices.Clone(r.Departed)
	if r.Namespaces == nil {
		r.Namespaces = make(map[capsule.NSID]Namespace)
	}
	return r
}

// Note sets the state of the namespace at an NSID.
func (r *Record) Note(id capsule.NSID, n Namespace) {
	if was, there := r.Namespaces[id]; there && was.UUID != n.UUID && was.Protection != capsule.WriteProtectNone {
		r.Departed = append(r.Departed, was)
		r.Departed = r.Departed[max(0, len(r.Departed)-maxDeparted):]
	}
	r.Departed = slices.DeleteFunc(r.Departed, func(o Namespace) bool { return o.UUID == n.UUID })
	r.Namespaces[id] = n
}

// Take returns the earlier state of a namespace that is at an NSID from now on, even if it had another one before.
func (r *Record) Take(id capsule.NSID, named uuid.UUID) (n Namespace, found bool) {
	if n, found = r.Namespaces[id]; found && n.UUID == named {
		return n, true
	}
	found = false
	for at, o := range r.Namespaces {
		if o.UUID == named {
			n, found = o, true
			delete(r.Namespaces, at)
		}
	}
	for _, o := range r.Departed {
		if o.UUID == named && !found {
			n, found = o, true
		}
	}
	if found {
		r.Note(id, n)
	}
	return n, found
}

const version = 1

type stored struct {
	Running         bool          `json:"running"`
	Verifier        uint64        `json:"write-verifier,omitempty"`
	Boot            string        `json:"boot,omitempty"`
	PowerCycles     uint64        `json:"power-cycles"`
	UnsafeShutdowns uint64        `json:"unsafe-shutdowns"`
	Errors          uint64        `json:"errors"`
	OnSeconds       int64         `json:"on-seconds"`
	Cycles          []storedCycle `json:"cycles,omitempty"`
	Namespaces      []storedOne   `json:"namespaces"`
	Departed        []storedOne   `json:"departed,omitempty"` // without NSIDs
}

type storedCycle struct {
	Number   uint64 `json:"number"`
	At       int64  `json:"at"`
	Firmware string `json:"firmware"`
}

type storedOne struct {
	NSID        capsule.NSID `json:"nsid"`
	UUID        uuid.UUID    `json:"uuid"`
	Reads       uint64       `json:"reads"`
	Writes      uint64       `json:"writes"`
	ReadBytes   uint64       `json:"read-bytes"`
	WriteBytes  uint64       `json:"write-bytes"`
	MediaErrors uint64       `json:"media-errors"`
	BusySeconds int64        `json:"busy-seconds"`
	Protected   bool         `json:"write-protected,omitempty"`
}

// Encode returns the record in the form that Decode reads.
func (r *Record) Encode() ([]byte, error) {
	s := stored{r.Running, uint64(r.Verifier), r.Boot, r.PowerCycles, r.UnsafeShutdowns, r.Errors, int64(r.On / time.Second), nil, []storedOne{}, nil}
	for _, c := range r.Cycles {
		s.Cycles = append(s.Cycles, storedCycle(c))
	}
	for _, id := range slices.Sorted(maps.Keys(r.Namespaces)) {
		s.Namespaces = append(s.Namespaces, store(id, r.Namespaces[id]))
	}
	for _, n := range r.Departed {
		if n.Protection == capsule.WriteProtected {
			s.Departed = append(s.Departed, store(0, n))
		}
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return sealed.Seal(version, b)
}

func store(id capsule.NSID, n Namespace) storedOne {
	c := n.Counts
	return storedOne{id, n.UUID, c.Reads, c.Writes, c.ReadBytes, c.WriteBytes, c.MediaErrors,
		int64(c.Busy / time.Second), n.Protection == capsule.WriteProtected}
}

func (n *storedOne) namespace() (Namespace, error) {
	if !isTime(n.BusySeconds) {
		return Namespace{}, fmt.Errorf("%w: the busy time of namespace %d is %d s", sealed.ErrDamaged, n.NSID, n.BusySeconds)
	}
	protection := capsule.WriteProtectNone
	if n.Protected {
		protection = capsule.WriteProtected
	}
	return Namespace{n.UUID, health.Counts{Reads: n.Reads, Writes: n.Writes, ReadBytes: n.ReadBytes, WriteBytes: n.WriteBytes,
		MediaErrors: n.MediaErrors, Busy: time.Duration(n.BusySeconds) * time.Second}, protection}, nil
}

// Decode decodes the result of Encode; nil is an empty record.
func Decode(b []byte) (Record, error) {
	if b == nil {
		return Record{}, nil
	}
	body, err := sealed.Open(version, b)
	if err != nil {
		return Record{}, err
	}
	var s stored
	if err := json.Unmarshal(body, &s); err != nil {
		return Record{}, fmt.Errorf("%w: %w", sealed.ErrDamaged, err)
	}
	if !isTime(s.OnSeconds) {
		return Record{}, fmt.Errorf("%w: the power-on time is %d s", sealed.ErrDamaged, s.OnSeconds)
	}
	r := Record{s.Running, capsule.WriteVerifier(s.Verifier), s.Boot, s.PowerCycles, s.UnsafeShutdowns, s.Errors, time.Duration(s.OnSeconds) * time.Second, nil, make(map[capsule.NSID]Namespace), nil}
	for _, c := range s.Cycles[max(0, len(s.Cycles)-maxCycles):] {
		c.Firmware = c.Firmware[:min(len(c.Firmware), maxFirmware)]
		r.Cycles = append(r.Cycles, Cycle(c))
	}
	for i, one := range slices.Concat(s.Namespaces, s.Departed) {
		n, err := one.namespace()
		switch departed := i >= len(s.Namespaces); {
		case err != nil:
			return Record{}, err
		case departed:
			r.Departed = append(r.Departed, n)
		case one.NSID == 0:
			return Record{}, fmt.Errorf("%w: it has a namespace 0", sealed.ErrDamaged)
		default:
			r.Namespaces[one.NSID] = n
		}
	}
	r.Departed = r.Departed[max(0, len(r.Departed)-maxDeparted):]
	return r, nil
}

// isTime reports whether a number of seconds fits in a time.Duration.
func isTime(seconds int64) bool {
	return seconds >= 0 && seconds <= int64(math.MaxInt64/time.Second)
}
