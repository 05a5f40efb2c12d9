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

// A Path is one controller, and what happens when it is lost.
type Path struct {
	Host       *host.Host
	Options    host.Options
	Keys       func(*host.Options) // as of multipath.PathConfig
	Timers     multipath.Timers
	Policy     string // Linux's iopolicy for the subsystem; empty: as it is, or the Connector's
	HostTraddr string // as the user gave it; may be empty
	Borrower   string // control socket of the process for which this one holds it; empty: its own
}

// A Connector connects to subsystems.
type Connector interface {
	// Connect connects by all paths, of which it returns the controllers, once one is
	// live and the others were tried for a moment. changed is called, from any goroutine, when a
	// controller's state or the namespaces may be others; it does not block.
	Connect(ctx context.Context, paths []Path, changed func()) (Subsystem, []Controller, error)
}

// A FrontEnd publishes namespaces as disks of the machine: an NBD server, say. Its methods
// may be called from any goroutine.
type FrontEnd interface {
	// Publish replaces what is published; the first disk is the default one. Who uses
	// a disk that is not among them goes on with it as it was, or is sent away, as the
	// front end says. The stores of those disks may be closed once Gone has returned. Of a
	// disk that cannot be published it says so.
	Publish(disks []Disk)
	// End has disks, by their names, published no more: what clients have asked for is answered and made durable,
	// as far as that is possible in a few seconds.
	End(disks []string) error
	// Gone waits until nobody uses disks, by their names, that are not published any more.
	Gone(disks []string)
	// URI is where a published disk is, or empty.
	URI(d nbd.Disk) string
	// Close finishes what was begun, as far as that is possible in a few seconds,
	// makes it durable, and ends. What a disk does not answer ends with its subsystem: once
	// that is closed Close is called again, and waits for it.
	Close() error
}

// A Disk is one for a front end, which has Say print what happens to it: the target decides how often that is.
type Disk struct {
	nbd.Disk
	Say func(line string)
}

// Passing reports whether a connection that did not come about may do so a little later
// without anybody's doing: the target does not answer, or takes nobody yet.
func Passing(err error) bool {
	var connect *host.ConnectError
	var other *passingError
	return errors.As(err, &other) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &connect) && !multipath.Refused(err)
}

// A passingError is such an error of another process.
type passingError struct{ text string }

func (e *passingError) Error() string { return e.text }

// A Subsystem is connected. Its methods may be called from any goroutine.
type Subsystem interface {
	// Add connects by another path.
	Add(ctx context.Context, p Path) (Controller, error)
	// Namespaces are those that can be used, in ascending order; the error is of others,
	// or of looking. A Store is the same from call to call for as long as it is of use;
	// one that is not among them any more fails all requests.
	Namespaces(ctx context.Context) ([]Namespace, error)
	// Waiting are those that were listed by the last call of Namespaces and cannot be used
	// since their controller waits for what they export ([host.ErrNotReady]), in ascending
	// order. changed is called when that ends.
	Waiting() []capsule.NSID
	// Policy is by which a request gets to one of several paths: Linux's iopolicy.
	Policy() string
	SetPolicy(name string) error
	// Measure is what its requests came to.
	Measure() multipath.Measures
	// Close disconnects all. Nothing may use memory of the subsystem any more.
	Close() error
}

// A Controller is a path that was connected.
type Controller interface {
	Status() Status
	Disconnect() error // for good
}

// A Status is how a controller is at a moment.
type Status struct {
	State    State
	Err      error // why it is not live
	ID       capsule.ControllerID
	Identify capsule.IdentifyController        // as it was last
	ANA      map[capsule.NSID]capsule.ANAState // of namespaces that are open; while live
}

// State is a controller's, by Linux's name.
type State string

// States.
const (
	Live       State = "live"
	Connecting State = "connecting" // it was lost, and is connected to again
	Deleting   State = "deleting"
	Dead       State = "dead" // given up: its process forgets it
)

// A Namespace can be read and written.
type Namespace struct {
	ID          capsule.NSID
	Identifiers host.Identifiers
	Store       backend.Store
	NewMemory   func(size int) (nbd.Memory, error) // may be nil: any memory will do

	// Used is how many bytes are allocated now, and Flush makes writes durable; while
	// no path is live they wait. Both may be nil.
	Used  func(ctx context.Context) (int64, error)
	Flush func(ctx context.Context) error
	// Unflushed reports whether there are writes that no flush has made durable; nil: there may be.
	Unflushed func() bool
}
