package backend

import "errors"

// What some stores can report besides. None of it is for a shard: each method may
// make system calls, and Health may take seconds.

// A Resizer is a store on something whose size may change while it is open.
type Resizer interface {
	// Refresh looks at the size again and reports whether Info.Size, which it
	// sets, differs from before. Requests beyond the new end get ErrOutOfRange.
	// On an error Info stays as it was.
	Refresh() (changed bool, err error)
}

// A Latcher is a store that takes no more writes once it could not keep a promise: for example, a
// flush failed, and it is unknown what was not written. From then on it acknowledges no write;
// reads go on.
type Latcher interface {
	// Failed is why the store takes no writes, or nil.
	Failed() error
	// Clear lets it take writes again. It is an administrator's decision, after the storage was
	// mended and the content checked: writes that were acknowledged, but not flushed, before the
	// failure may be lost. Clearing a store that is gone fails.
	Clear() error
}

// A Failer is a [Latcher] that can have failed before it was opened: its file or device was open in
// another process, here or on another machine, or with other options, and has failed there. A store
// that fails because this program lost its right to it is no Failer: whoever opens it has that
// right.
type Failer interface {
	Latcher
	// Fail makes the store refuse writes from now on, as after such a failure, until Clear.
	Fail(why error)
}

// A Marked is a store that knows when its content began as zeroes.
type Marked interface {
	// Mark differs from that of all other content which is, was or will be in the same place, such
	// as a file that is created again because the previous one was lost; nil: the content existed
	// before it could be marked.
	Mark() []byte
}

// A Detacher is a store that goes on although its content may be lost when it is closed.
type Detacher interface {
	// Detached says why the store's content cannot be found again once it is closed, as that of a
	// file which somebody has removed, and what to do; nil: it can.
	Detached() error
}

// A StorageKeeper is a store that notices the loss of storage that neither hosts nor the store
// itself have given back.
type StorageKeeper interface {
	// Missing is how many bytes are gone, up to Info.Size: somebody has cut the store short, and it became longer again
	// before Refresh, or has punched holes, and zeroes are read there. 0: none, as far as can be known.
	Missing() (int64, error)
}

// A Roomer is a store that takes its storage from a file system it shares.
type Roomer interface {
	// Room is how many bytes the file system has left for the store, and how
	// many it has altogether. A store that is preallocated needs none of it;
	// another needs up to Info.Size less Allocated.
	Room() (free, total int64, err error)
}

// A Noter is a store that has something to report to an administrator: what is not as
// configured, and why. There may be more once a queue was opened.
type Noter interface {
	// Notes are sentences without an initial capital and a full stop.
	Notes() []string
}

// A HealthReporter is a store on one physical drive.
type HealthReporter interface {
	// Health queries the drive. The error wraps ErrNoHealth where there is none to
	// query, or it reports none.
	Health() (Health, error)
}

// ErrNoHealth says that a store cannot report a drive's health.
var ErrNoHealth = errors.New("no drive health")

// Health is what a drive reports about itself, in the units of the SMART / Health Information log
// of NVM Express (Base Specification, log page 02h). What a drive does not report is zero, and its
// bit in Known is clear.
type Health struct {
	Known HealthFields

	Warning        Warning
	Temperature    uint16 // kelvins
	Spare          uint8  // percent of the spare capacity that is left
	SpareThreshold uint8  // percent below which Warning has WarnSpare
	Used           uint8  // percent of the expected life; may exceed 100

	UnitsRead, UnitsWritten uint64 // thousands of 512 bytes, rounded up
	Reads, Writes           uint64 // commands
	BusyMinutes             uint64
	PowerCycles             uint64
	PowerOnHours            uint64
	UnsafeShutdowns         uint64
	MediaErrors             uint64
	ErrorLogEntries         uint64
}

// Warning is the Critical Warning field.
type Warning uint8

const (
	WarnSpare       Warning = 1 << iota // available spare below its threshold
	WarnTemperature                     // beyond a threshold
	WarnReliability                     // degraded by media errors or internal ones
	WarnReadOnly                        // all media are read-only
	WarnVolatile                        // the volatile memory's backup failed
)

// HealthFields are the fields of a Health that its drive reports.
type HealthFields uint16

const (
	HealthWarning HealthFields = 1 << iota
	HealthTemperature
	HealthSpare // and SpareThreshold
	HealthUsed
	HealthUnits
	HealthCommands
	HealthBusyMinutes
	HealthPowerCycles
	HealthPowerOnHours
	HealthUnsafeShutdowns
	HealthMediaErrors
	HealthErrorLogEntries
)
