package benchcommand

import (
	"context"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Fabric reaches the namespaces that the command measures.
type Fabric interface {
	// AddFlags adds the flags that select what is measured, and how it is reached.
	AddFlags(*cobra.Command)
	// Where returns the values of those flags.
	Where() Where
	// Addr checks the flags, and returns the address if there is one.
	Addr() (netip.AddrPort, error)
	// Measure connects, calls the function to measure, and disconnects. It returns the report on the paths, or nil if
	// it used one controller.
	Measure(*cobra.Command, func(context.Context, Link) error) (*Paths, error)
}

// Where describes what is measured, in the words of the command line.
type Where struct {
	Traddr, Trsvcid, NQN, Provider string
	Queues                         int // for I/O
}

// A Program contains the functions that the command needs from the program.
type Program struct {
	// Version returns the program's version.
	Version func() string
	// NeedProcessors reserves a processor for the rest of the program beside the loops.
	NeedProcessors func(loops int, polling nvmeof.Polling)
	// ParseStore parses an export in the form of the target. The returned function opens it, each time as if for the
	// first time.
	ParseStore func(export string) (open func() (backend.Store, error), err error)
}
