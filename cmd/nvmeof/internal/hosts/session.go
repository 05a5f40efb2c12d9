package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Session is a host on a device of its own, for as long as a command runs.
type Session struct {
	Flags    *fabricoptions.Connection
	Addr     netip.AddrPort // of the controller
	Identity nvmeof.HostIdentity
	device   rdmatransport.Device
	host     *host.Host
	warn     io.Writer // gets a line where nobody answers
}

// OpenSession starts a host that can reach the address. What is worth knowing about its
// device goes to warn.
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

// Close ends the host and its device.
func (s *Session) Close() error { return errors.Join(s.host.Close(), s.device.Close()) }

// Connect connects to a subsystem.
func (s *Session) Connect(ctx context.Context, nqn string) (*host.Controller, error) {
	if nqn == "" {
		return nil, failure.Usagef("--nqn is missing: the subsystem; `nvmeof discover` lists them")
	}
	o, err := s.Flags.HostOptions(s.Addr, nqn)
	if err != nil {
		return nil, err
	}
	answered := PrintSilence(s.warn, connections.Path{Options: o})
	c, err := s.host.Connect(ctx, o)
	answered()
	if err != nil {
		return nil, s.refused(ctx, err, nvmeof.NQN(nqn))
	}
	return c, nil
}

// Discover reads the discovery log of the controller of that name, or of any.
func (s *Session) Discover(ctx context.Context, nqn string) (*host.DiscoveryLog, error) {
	o, err := s.Flags.HostOptions(s.Addr, nqn)
	if err != nil {
		return nil, err
	}
	answered := PrintSilence(s.warn, connections.Path{Options: o})
	log, err := s.host.Discover(ctx, o)
	answered()
	if err != nil {
		return nil, s.refused(ctx, err, nvmeof.DiscoveryNQN)
	}
	return log, nil
}

// refused explains a connection that failed: who refused, why, and what to do.
func (s *Session) refused(ctx context.Context, err error, nqn nvmeof.NQN) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var status *host.StatusError
	if !errors.As(err, &status) {
		return &failure.Connect{Err: err}
	}
	if isStranger(err) {
		return &failure.Connect{Err: fmt.Errorf("%w\nThis host is %s; on a target of ours: --allow-host %s", err, s.Identity.NQN, s.Identity.NQN)}
	}
	if status.Status.Code() == capsule.StatusConnectInvalidParam {
		p := capsule.ParseInvalidParameter(status.Result)
		if p.In == capsule.InvalidInData && p.Offset == capsule.ConnectOffsetSubNQN {
			return &failure.Connect{Err: fmt.Errorf("%w%s", err, s.suggest(ctx, nqn))}
		}
	}
	return &failure.Connect{Err: err}
}

// suggest names subsystems that do exist where the wanted one does not.
func (s *Session) suggest(ctx context.Context, wanted nvmeof.NQN) string {
	o, err := s.Flags.HostOptions(s.Addr, "")
	if err != nil {
		return ""
	}
	log, err := s.host.Discover(ctx, o)
	if err != nil {
		return ""
	}
	var names []string
	for i := range log.Entries {
		if e := &log.Entries[i]; e.SUBTYPE == capsule.SubsystemNVM {
			names = append(names, nvmeof.Printable(capsule.Text(e.SubNQN[:])))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("\nThat target shows no subsystem to this host, which is %s: is it allowed there?", s.Identity.NQN)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if near := nvmeof.Nearest(string(wanted), names); near != "" {
		return "\nDid you mean " + near + "?"
	}
	return "\nThere is: " + strings.Join(names, ", ")
}
