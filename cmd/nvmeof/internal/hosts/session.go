package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Session is a host on a device of its own, used while a command runs.
type Session struct {
	Flags    *fabricoptions.Connection
	Addr     netip.AddrPort // of the controller
	Identity nvmeof.HostIdentity
	device   rdmatransport.Device
	host     *host.Host
	warn     io.Writer // receives a line if the target does not answer
}

// OpenSession starts a host that can reach the address. Warnings about its device are written to warn.
func OpenSession(c *fabricoptions.Connection, warn io.Writer) (*Session, error) {
	addr, err := c.Addr()
	if err != nil {
		return nil, err
	}
	identity, err := c.Identity()
	if err != nil {
		return nil, err
	}
	o, err := open(c, identity, addr.Addr(), 0, warn)
	if err != nil {
		return nil, err
	}
	return &Session{c, addr, identity, o.device, o.host, warn}, nil
}

// Close closes the host and its device.
func (s *Session) Close() error { return errors.Join(s.host.Close(), s.device.Close()) }

// Ended prints the error with which a connection ended after its work was done. The command does not fail for it: a
// caller that checks the exit status would repeat the work.
func Ended(warn io.Writer, err error) {
	if err != nil {
		fmt.Fprintf(warn, "warning: the command succeeded, but its connection was not closed properly: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// Connect connects to a subsystem.
func (s *Session) Connect(ctx context.Context, nqn string) (*host.Controller, error) {
	if nqn == "" {
		return nil, failure.Usagef("--nqn is missing: the subsystem; `nvmeof discover` lists them")
	}
	o, err := s.Flags.HostOptions(s.Addr, nqn)
	if err != nil {
		return nil, err
	}
	answered := PrintSilence(s.warn, s.path(o))
	c, err := s.host.Connect(ctx, o)
	answered()
	if err != nil {
		return nil, Explain(ctx, err, s.path(o))
	}
	return c, nil
}

// Discover reads the discovery log of the controller with that name, or of any.
func (s *Session) Discover(ctx context.Context, nqn string) (*host.DiscoveryLog, error) {
	o, err := s.Flags.HostOptions(s.Addr, nqn)
	if err != nil {
		return nil, err
	}
	answered := PrintSilence(s.warn, s.path(o))
	log, err := s.host.Discover(ctx, o)
	answered()
	if err != nil {
		return nil, Explain(ctx, err, s.path(o))
	}
	return log, nil
}

// path returns the path with these options.
func (s *Session) path(o host.Options) connections.Path {
	o.HostNQN, o.HostID = s.Identity.NQN, s.Identity.ID
	return connections.Path{Host: s.host, Options: o}
}
