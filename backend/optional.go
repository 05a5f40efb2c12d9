package backend

import "errors"

// What some stores can report in addition. Do not call these methods from a shard: each may make system calls, and
// Health may take seconds.

// A Resizer is a store whose size may change while it is open.
type Resizer interface {
	// Refresh reads the size again, stores it in Info.Size and reports whether it changed. Requests beyond the new end
	// fail with ErrOutOfRange. After an error Info is unchanged.
	Refresh() (changed bool, err error)
}

// A Latcher is a store that takes no more writes after a failure that may have lost acknowledged data: for example, a
// flush failed and it is unknown what was not written. From then on it acknowledges no write; reads continue to work.
type Latcher interface {
	// Failed returns why the store takes no writes, or nil.
	Failed() error
	// Clear lets the store take writes again. It is an administrator's decision, after the storage was repaired and the
	// content checked: writes that were acknowledged but not flushed before the failure may be lost. It fails if the
	// store's device or image is gone.
	Clear() error
}

// A Failer is a [Latcher] that may have failed before it was opened: its file or device was open in another process, on
// this or another machine, or with other options, and failed there. A store that fails because this program lost its
// right to it is not a Failer: the program that opens it next has that right.
type Failer interface {
	Latcher
	// Fail makes the store refuse writes from now on, as after such a failure, until Clear.
	Fail(why error)
}

// A Marked is a store that knows when its content began as zeroes.
type Marked interface {
	// Mark returns a value that differs from that of any other content which is, was or will be in the same place, such
	// as that of a file that is created again because the previous one was lost. It returns nil if the content existed
	// before it could be marked.
	Mark() []byte
}

// A Detacher is a store that continues although its content may be lost when it is closed.
type Detacher interface {
	// Detached returns why the store's content cannot be found again once it is closed, and what to do about it. An
	// example is a file that was removed. It returns nil if the content can be found.
	Detached() error
}

// A StorageKeeper is a store that detects the loss of storage that neither a host nor the store deallocated.
type StorageKeeper interface {
	// Missing returns how many bytes of storage are lost, up to Info.Size; they read as zeroes. For example, a file was
	// truncated and extended again before Refresh, or another program punched holes into it. It returns 0 if no loss is
	// known.
	Missing() (int64, error)
}

// A Roomer is a store that takes its storage from a shared file system.
type Roomer interface {
	// Room returns how many bytes the file system has free for the store, and its total size. A preallocated store
	// needs no free space; another may need up to Info.Size less Allocated.
	Room() (free, total int64, err error)
}

// A Noter is a store with notes for an administrator: what is not as configured, and why. Opening a queue may add
// notes, and so may Refresh.
type Noter interface {
	// Notes returns sentences without an initial capital and a full stop.
	Notes() []string
}

// A HealthReporter is a store on one physical drive.
type HealthReporter interface {
	// Health queries the drive. The error wraps ErrNoHealth if there is no drive to query or it reports nothing.
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
