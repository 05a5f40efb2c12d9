package benchcommand

import (
	"context"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Fabric is how the command gets at the namespaces that it measures.
type Fabric interface {
	// AddFlags adds the flags that say what is measured, and how it is reached.
	AddFlags(*cobra.Command)
	// Where is what those flags say.
	Where() Where
	// Addr checks the flags, and is the address where there is one.
	Addr() (netip.AddrPort, error)
	// Measure connects, has the function measure, and disconnects. It reports on the paths;
	// nil where it went over one controller.
	Measure(*cobra.Command, func(context.Context, Link) error) (*Paths, error)
}

// Where says what is measured, in the words of the command line.
type Where struct {
	Traddr, Trsvcid, NQN, Provider string
	Queues                         int // for I/O
}

// A Program is what the command needs of the program around it.
type Program struct {
	// Version is the program's.
	Version func() string
	// NeedProcessors leaves the rest of the program a processor beside so many loops.
	NeedProcessors func(loops int, polling nvmeof.Polling)
	// ParseStore reads an export as the target takes it. It is opened by what is returned,
	// each time as if it were the first.
	ParseStore func(export string) (open func() (backend.Store, error), err error)
}
