package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

func newList() *cobra.Command {
	var c connection
	var format string
	cmd := &cobra.Command{
		Use:   "list [-t rdma -a ADDR [-n NQN]]",
		Short: "List namespaces, as nvme list",
		Long: `Lists the namespaces of a subsystem or, without --nqn, of every subsystem that
the target at the address shows to this host. The names in column Node number what
is listed; no device is made. Without --traddr it lists what nvmeof connect holds, and
the NBD sockets by which to use it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			print, err := pick(format, map[string]func(io.Writer, []nvmecli.Device) error{
				"normal": nvmecli.ListText, "json": nvmecli.ListJSON,
			})
			if err != nil {
				return err
			}
			if c.traddr == "" {
				all, err := connections.All(cmd.Context(), runDir())
				return errors.Join(print(cmd.OutOrStdout(), heldDevices(all)), err)
			}
			s, err := c.open(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			devices, err := s.list(cmd.Context())
			if err != nil {
				return err
			}
			return print(cmd.OutOrStdout(), devices)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVarP(&format, "output-format", "o", "normal", "output format: normal|json")
	return cmd
}

// list lists the namespaces of the wanted subsystem, or of all.
func (s *session) list(ctx context.Context) ([]nvmecli.Device, error) {
	all := []string{s.flags.nqn}
	if s.flags.nqn == "" {
		log, err := s.discover(ctx, "")
		if err != nil {
			return nil, err
		}
		all = s.subsystems(log)
	}
	var devices []nvmecli.Device
	for i, nqn := range all {
		found, err := s.listSubsystem(ctx, i, nqn)
		if err != nil {
			return nil, err
		}
		devices = append(devices, found...)
	}
	return devices, nil
}

// subsystems are those that a log has at the address that we asked.
func (s *session) subsystems(log *host.DiscoveryLog) (nqns []string) {
	for i := range log.Entries {
		e := &log.Entries[i]
		addr, err := netip.ParseAddr(capsule.Text(e.TRADDR[:]))
		if e.SUBTYPE == capsule.SubsystemNVM && e.TRTYPE == capsule.TransportRDMA && err == nil && addr == s.addr.Addr() &&
			capsule.Text(e.TRSVCID[:]) == fmt.Sprint(s.addr.Port()) {
			nqns = append(nqns, capsule.Text(e.SubNQN[:]))
		}
	}
	return nqns
}

func (s *session) listSubsystem(ctx context.Context, index int, nqn string) (devices []nvmecli.Device, err error) {
	c, err := s.connect(ctx, nqn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Disconnect(ctx)) }()
	ids, err := c.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		ns, err := c.Namespace(ctx, id)
		if err != nil {
			return nil, err
		}
		devices = append(devices, device(c, ns, index, i+1))
	}
	return devices, nil
}

// connect connects to a subsystem.
func (s *session) connect(ctx context.Context, nqn string) (*host.Controller, error) {
	if nqn == "" {
		return nil, usage("--nqn is missing: the subsystem; `nvmeof discover` lists them")
	}
	o, err := s.flags.options(s.addr, nqn)
	if err != nil {
		return nil, err
	}
	c, err := s.host.Connect(ctx, o)
	if err != nil {
		return nil, s.refused(ctx, err, nvmeof.NQN(nqn))
	}
	return c, nil
}

// device describes namespace number i of subsystem number index.
func device(c *host.Controller, ns *host.Namespace, index, i int) nvmecli.Device {
	id, data := c.Identify(), ns.Identify()
	used, _ := ns.Allocated()
	return nvmecli.Device{
		Node: fmt.Sprintf("nvme%dn%d", index, i), Generic: fmt.Sprintf("ng%dn%d", index, i),
		Serial: capsule.Text(id.SN[:]), Model: capsule.Text(id.MN[:]), Firmware: capsule.Text(id.FR[:]),
		NSID: uint32(ns.ID()), Used: uint64(used), Size: uint64(ns.Size()),
		BlockSize: ns.BlockSize(), MetadataSize: int(data.Format().MS),
	}
}
