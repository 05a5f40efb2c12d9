package connections

import (
	"context"
	"errors"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// A Path describes the connection to one controller, and what happens when it is lost.
type Path struct {
	Host       *host.Host
	Options    host.Options
	Keys       func(*host.Options) // as in multipath.PathConfig
	Timers     multipath.Timers
	Policy     string // Linux's iopolicy for the subsystem; empty: unchanged, or the Connector's
	HostTraddr string // as given by the user; may be empty
	Borrower   string // control socket of the process for which this one holds the controller; empty: for itself
}

// A Connector connects to subsystems.
type Connector interface {
	// Connect connects by all paths and returns their controllers, once one is live and the others were tried for a
	// moment. changed is called from any goroutine when the state of a controller or the namespaces may have changed;
	// it does not block.
	Connect(ctx context.Context, paths []Path, changed func()) (Subsystem, []Controller, error)
}

// A FrontEnd publishes namespaces as disks of the machine, for example as an NBD server. Its methods may be called
// from any goroutine.
type FrontEnd interface {
	// Publish replaces the published disks; the first one is the default. Depending on the front end, clients of a disk
	// that is no longer published keep using it or are disconnected. The stores of such disks may be closed once Gone
	// has returned. Publish reports a disk that cannot be published.
	Publish(disks []Disk)
	// End stops publishing the named disks. Requests of their clients are answered and made durable, as far as possible
	// within a few seconds.
	End(disks []string) error
	// Gone waits until the named disks, which are no longer published, are not in use any more.
	Gone(disks []string)
	// URI returns the location of a published disk, or "".
	URI(d nbd.Disk) string
	// Close completes outstanding requests and makes them durable, as far as possible within a few seconds, and ends
	// the front end. Requests that a disk does not answer end with its subsystem: Close is called a second time after
	// the subsystem is closed, and waits for them.
	Close() error
}

// A Disk is a disk for a front end, which calls Say to print events of the disk. How often that happens depends on the
// target.
type Disk struct {
	nbd.Disk
	Say func(line string)
}

// Passing reports whether a failed connection attempt may succeed a little later without any action, because the
// target does not answer or does not accept connections yet.
func Passing(err error) bool {
	var connect *host.ConnectError
	var other *passingError
	return errors.As(err, &other) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &connect) && !multipath.Refused(err)
}

// A passingError is an error reported by another process for which Passing is true.
type passingError struct{ text string }

func (e *passingError) Error() string { return e.text }

// A Subsystem is a connected subsystem. Its methods may be called from any goroutine.
type Subsystem interface {
	// Add connects by another path.
	Add(ctx context.Context, p Path) (Controller, error)
	// Namespaces returns the usable namespaces in ascending order. The error is about the others, or about the listing
	// itself. A Store stays the same from call to call while it is usable; one that is no longer returned fails all
	// requests.
	Namespaces(ctx context.Context) ([]Namespace, error)
	// Waiting returns, in ascending order, the namespaces listed by the last call of Namespaces that are not usable
	// because their controller waits for the exported store ([host.ErrNotReady]). changed is called when one becomes
	// ready.
	Waiting() []capsule.NSID
	// Policy returns the policy that selects the path of a request: Linux's iopolicy.
	Policy() string
	SetPolicy(name string) error
	// Measure returns the measures of the subsystem's requests.
	Measure() multipath.Measures
	// Close disconnects all controllers. The subsystem's memory must not be in use any more.
	Close() error
}

// A Controller is a path of a subsystem.
type Controller interface {
	Status() Status
	Disconnect() error // permanently
}

// A Status is the state of a controller at one moment.
type Status struct {
	State    State
	Err      error // why it is not live
	ID       capsule.ControllerID
	Identify capsule.IdentifyController        // of the last connection
	ANA      map[capsule.NSID]capsule.ANAState // of open namespaces; only while live
}

// State is the state of a controller, with Linux's names.
type State string

// States.
const (
	Live       State = "live"
	Connecting State = "connecting" // lost, and being reconnected
	Deleting   State = "deleting"
	Dead       State = "dead" // given up: its process removes it
)

// A Namespace can be read and written.
type Namespace struct {
	ID          capsule.NSID
	Identifiers host.Identifiers
	Store       backend.Store
	NewMemory   func(size int) (nbd.Memory, error) // may be nil: any memory can be used

	// Used returns how many bytes are allocated now. Flush makes writes durable. Both wait while no path is live, and
	// both may be nil.
	Used  func(ctx context.Context) (int64, error)
	Flush func(ctx context.Context) error
	// Unflushed reports whether there are writes that no flush has made durable; nil: there may be.
	Unflushed func() bool
}
