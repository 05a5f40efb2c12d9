package child

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"runtime"
)

// Command is the first argument of a child; the role is the second.
const Command = "child"

// Roles.
const (
	RoleTarget = "target" // serves namespaces
	RoleHost   = "host"   // connects and loads them
	RoleFloor  = "floor"  // measures the machine below the fabric
	RoleLossy  = "lossy"  // runs both ends and a lossy network between them
)

// None is the type of arguments and results of calls that have none.
type None struct{}

// Serve runs a child: it serves calls until standard input ends.
func Serve(role string) error {
	services := map[string]io.Closer{
		RoleTarget: &Target{}, RoleHost: &Host{}, RoleFloor: &Floor{}, RoleLossy: &Lossy{},
	}
	service := services[role]
	if service == nil {
		return fmt.Errorf("there is no child %q", role)
	}
	server := rpc.NewServer()
	if err := server.RegisterName(role, service); err != nil {
		return err
	}
	server.ServeCodec(jsonrpc.NewServerCodec(standardIO{os.Stdin, os.Stdout}))
	return service.Close()
}

type standardIO struct {
	io.Reader
	io.WriteCloser
}

// needProcessors lets the Go scheduler run on one thread per processor besides those that loops occupy.
func needProcessors(loops int) { runtime.GOMAXPROCS(runtime.NumCPU() + loops) }

// mallocs returns how many objects were ever allocated.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// closers are functions that Close calls in reverse order.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

// Close calls all functions, and joins their errors.
func (c *closers) Close() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}
