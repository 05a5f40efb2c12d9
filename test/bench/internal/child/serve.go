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

// Command is the first argument of a child, and its role the second.
const Command = "child"

// Roles.
const (
	RoleTarget = "target" // serves namespaces
	RoleHost   = "host"   // connects and loads them
	RoleFloor  = "floor"  // measures what lies beneath
	RoleLossy  = "lossy"  // both ends and a bad network between them
)

// None is the argument or result of calls that have none.
type None struct{}

// Serve is a child's life: calls until standard input ends.
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

// needProcessors leaves the Go scheduler one besides those that loops hold.
func needProcessors(loops int) { runtime.GOMAXPROCS(runtime.NumCPU() + loops) }

// mallocs counts what was ever allocated.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// closers are undone in reverse.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

// Close undoes everything.
func (c *closers) Close() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}
