package connections

import (
	"context"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// A Path is one controller, and what happens when it is lost.
type Path struct {
	Host       *host.Host
	Options    host.Options
	Timers     Timers
	HostTraddr string // as the user gave it; may be empty
}

// Timers are nvme-cli's options of the same names.
type Timers struct {
	ReconnectDelay time.Duration // between two attempts to connect again
	CtrlLossTmo    time.Duration // when a controller is given up; negative: never
	FastIOFailTmo  time.Duration // when requests stop waiting for it; negative: when it is given up
}

// A Connector connects to subsystems.
type Connector interface {
	// Connect connects by a first path. changed is called, from any goroutine, when a
	// controller's state or the namespaces may be others; it does not block.
	Connect(ctx context.Context, first Path, changed func()) (Subsystem, Controller, error)
}

// A Subsystem is connected. Its methods may be called from any goroutine.
type Subsystem interface {
	// Add connects by another path.
	Add(ctx context.Context, p Path) (Controller, error)
	// Namespaces are those that can be used now, in ascending order. A Store is the
	// same from call to call for as long as it is of use; one that is not among them
	// any more fails all requests.
	Namespaces(ctx context.Context) ([]Namespace, error)
	Policy() string // by which a request gets to one of several paths: Linux's iopolicy
	Close() error   // disconnects all
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
	Identify capsule.IdentifyController // as it was last
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
	Metadata    int // bytes per block
	Store       backend.Store
	NewMemory   func(size int) (Memory, error) // may be nil: any memory will do
}

// A FrontEnd makes disks of namespaces, for programs of this machine. Its methods may
// be called from any goroutine.
type FrontEnd interface {
	// Publish replaces what is published. Who uses a disk that is not among them goes
	// on with it as it was.
	Publish(disks []Disk) error
	// Usage is what to type to use a disk, a line each.
	Usage(d Disk) []string
	// Close finishes what was begun, and ends.
	Close() error
}

// A Disk is a namespace for a FrontEnd.
type Disk struct {
	Name        string // nvme0n1
	Description string // a line for people
	Store       backend.Store
	NewMemory   func(size int) (Memory, error)
}

// Memory is memory that data moves to and from without a copy.
type Memory interface {
	Bytes() []byte
	Close() error
}
