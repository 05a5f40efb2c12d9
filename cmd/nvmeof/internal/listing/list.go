package listing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// List returns the command nvmeof list.
func List() *cobra.Command {
	var c fabricoptions.Connection
	var format string
	var verbose int
	cmd := &cobra.Command{
		Use:   "list [-t rdma -a ADDR [-n NQN]]",
		Short: "List namespaces, as nvme list",
		Long: `List the namespaces of a subsystem or, without --nqn, of every subsystem that the
target at the address shows to this host. The names in the column Node only number
the lines; no device is created. Without --traddr it lists what nvmeof connect
holds, with the NBD sockets.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			formats := map[string]func(io.Writer, []nvmecli.Subsystem) error{"normal": plainly(nvmecli.ListText), "json": plainly(nvmecli.ListJSON)}
			if verbose > 0 {
				formats = map[string]func(io.Writer, []nvmecli.Subsystem) error{"normal": nvmecli.ListVerboseText, "json": nvmecli.ListVerboseJSON}
			}
			print, err := failure.Pick(format, formats)
			if err != nil {
				return err
			}
			if c.Traddr == "" {
				all, err := connections.All(cmd.Context(), connections.RunDir())
				return errors.Join(print(cmd.OutOrStdout(), subsystemsOf(all, "")), err)
			}
			s, err := hosts.OpenSession(&c, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer func() { hosts.Ended(cmd.ErrOrStderr(), s.Close()) }()
			all, err := listAll(cmd.Context(), s, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return print(cmd.OutOrStdout(), all)
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVarP(&format, "output-format", "o", "normal", "output format: normal|json")
	cmd.Flags().CountVarP(&verbose, "verbose", "v", "list subsystems and controllers too")
	return cmd
}

// plainly returns a printer of the namespaces alone.
func plainly(print func(io.Writer, []nvmecli.Device) error) func(io.Writer, []nvmecli.Subsystem) error {
	return func(w io.Writer, all []nvmecli.Subsystem) error {
		var devices []nvmecli.Device
		for i := range all {
			devices = append(devices, all[i].Namespaces...)
		}
		return print(w, devices)
	}
}

// listAll lists the wanted subsystem, or all. Reasons for omissions are written to warn.
func listAll(ctx context.Context, s *hosts.Session, warn io.Writer) ([]nvmecli.Subsystem, error) {
	all := []string{s.Flags.NQN}
	if s.Flags.NQN == "" {
		log, err := s.Discover(ctx, "")
		if err != nil {
			return nil, err
		}
		all = subsystemsAt(log, s.Addr)
	}
	var subsystems []nvmecli.Subsystem
	for i, nqn := range all {
		found, err := listSubsystem(ctx, s, i, nqn, warn)
		if err != nil {
			return nil, err
		}
		subsystems = append(subsystems, found)
	}
	return subsystems, nil
}

// subsystemsAt returns the subsystems at an address according to a log.
func subsystemsAt(log *host.DiscoveryLog, at netip.AddrPort) (nqns []string) {
	for i := range log.Entries {
		e := &log.Entries[i]
		addr, err := netip.ParseAddr(capsule.Text(e.TRADDR[:]))
		if e.SUBTYPE == capsule.SubsystemNVM && e.TRTYPE == capsule.TransportRDMA && err == nil && addr == at.Addr() &&
			capsule.Text(e.TRSVCID[:]) == fmt.Sprint(at.Port()) {
			nqns = append(nqns, capsule.Text(e.SubNQN[:]))
		}
	}
	return nqns
}

// listSubsystem describes subsystem number index with its namespaces.
func listSubsystem(ctx context.Context, s *hosts.Session, index int, nqn string, warn io.Writer) (sub nvmecli.Subsystem, err error) {
	c, err := s.Connect(ctx, nqn)
	if err != nil {
		return sub, err
	}
	defer func() {
		if ended := c.Disconnect(ctx); err != nil {
			err = errors.Join(err, ended)
		} else {
			hosts.Ended(warn, ended)
		}
	}()
	ids, err := c.Namespaces(ctx)
	if err != nil {
		return sub, err
	}
	id := c.Identify()
	sub = nvmecli.Subsystem{
		Name: fmt.Sprintf("nvme-subsys%d", index), NQN: nqn, HostNQN: string(s.Identity.NQN), HostID: uuid.UUID(s.Identity.ID).String(),
		Serial: capsule.Text(id.SN[:]), Model: capsule.Text(id.MN[:]), Firmware: capsule.Text(id.FR[:]),
	}
	where := connections.ControllerInfo{Traddr: s.Addr.Addr().String(), Trsvcid: fmt.Sprint(s.Addr.Port()), HostTraddr: s.Flags.HostTraddr}
	path := nvmecli.Path{Name: fmt.Sprintf("nvme%d", index), Transport: "rdma", Address: where.Address(), ControllerID: uint16(id.CNTLID)}
	var there []capsule.NSID
	for i, id := range ids {
		ns, err := c.Namespace(ctx, id)
		if errors.Is(err, host.ErrNotReady) {
			fmt.Fprintf(warn, "warning: %s: %v\n", nqn, err)
			continue
		}
		if err != nil {
			return sub, err
		}
		there = append(there, id)
		sub.Namespaces = append(sub.Namespaces, Device(c, ns, index, i+1))
		path.Ways = append(path.Ways, nvmecli.Way{Name: fmt.Sprintf("nvme%dc%dn%d", index, index, i+1)})
	}
	sub.Paths = []nvmecli.Path{path}
	return sub, nameStates(ctx, c, there, path.Ways)
}

// nameStates adds the ANA states of the namespaces, if there is an ANA log.
func nameStates(ctx context.Context, c *host.Controller, ids []capsule.NSID, ways []nvmecli.Way) error {
	if c.Identify().CMIC&capsule.CMICANA == 0 {
		return nil
	}
	log, err := c.Logs().ANA(ctx, false)
	if err != nil {
		return err
	}
	for _, g := range log.Groups {
		for i, id := range ids {
			if slices.Contains(g.Namespaces, id) {
				ways[i].State = g.State.String()
			}
		}
	}
	return nil
}

// Device describes namespace number i of subsystem number index.
func Device(c *host.Controller, ns *host.Namespace, index, i int) nvmecli.Device {
	id, data := c.Identify(), ns.Identify()
	used, _ := ns.Allocated()
	return nvmecli.Device{
		Node: fmt.Sprintf("nvme%dn%d", index, i), Generic: fmt.Sprintf("ng%dn%d", index, i),
		Serial: capsule.Text(id.SN[:]), Model: capsule.Text(id.MN[:]), Firmware: capsule.Text(id.FR[:]),
		NSID: uint32(ns.ID()), Used: uint64(used), Size: uint64(ns.Size()),
		BlockSize: ns.BlockSize(), MetadataSize: int(data.Format().MS),
	}
}
