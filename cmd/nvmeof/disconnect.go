package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
)

func newDisconnect() *cobra.Command {
	var nqn, device string
	cmd := &cobra.Command{
		Use:   "disconnect -n NQN | -d nvme0",
		Short: "Disconnect what nvmeof connect holds, as nvme disconnect",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case nqn == "" && device == "":
				return failure.Usagef("--nqn or --device is missing: what to disconnect; nvmeof list-subsys shows it")
			case nqn != "" && device != "":
				return failure.Usagef("--nqn and --device do not go together")
			}
			names, err := disconnectAll(cmd.Context(), nqn, device, "")
			if device != "" {
				if err == nil && len(names) == 0 {
					return failure.Usagef("Did not find device %s: no process of this user holds it; nvmeof list-subsys shows what there is", device)
				}
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "NQN:%s disconnected %d controller(s)\n", nqn, len(names))
			return err
		},
	}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "nqn name")
	cmd.Flags().StringVarP(&device, "device", "d", "", "nvme device handle")
	return cmd
}

func newDisconnectAll() *cobra.Command {
	var transport string
	cmd := &cobra.Command{
		Use:   "disconnect-all",
		Short: "Disconnect all that nvmeof connect holds, as nvme disconnect-all",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := disconnectAll(cmd.Context(), "", "", transport)
			return err
		},
	}
	cmd.Flags().StringVarP(&transport, "transport", "r", "", "transport type: only of that")
	return cmd
}

// disconnectAll asks all processes: first for what others hold for them, so that none
// takes the end of such a controller for a loss and connects again by itself.
func disconnectAll(ctx context.Context, nqn, device, transport string) (names []string, err error) {
	all, err := connections.All(ctx, runDir())
	errs := []error{err}
	for _, ask := range []func(*connections.Process, context.Context, string, string, string) ([]string, error){
		(*connections.Process).Recall, (*connections.Process).Disconnect,
	} {
		for i := range all {
			some, err := ask(&all[i], ctx, nqn, device, transport)
			names = append(names, some...)
			errs = append(errs, err)
		}
	}
	return names, errors.Join(errs...)
}

func newListSubsys() *cobra.Command {
	var format string
	var more bool
	cmd := &cobra.Command{
		Use:   "list-subsys [nvme0n1]",
		Short: "List the subsystems that nvmeof connect holds, as nvme list-subsys",
		Long: `Lists the subsystems that nvmeof connect and connect-all hold, with their paths. Of one
device, a namespace or a controller, it tells how each live path reaches the namespace, by
its ANA state.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			print, err := failure.Pick(format, map[string]func(io.Writer, []nvmecli.Subsystem, bool) error{
				"normal": nvmecli.SubsystemsText, "json": nvmecli.SubsystemsJSON,
			})
			if err != nil {
				return err
			}
			all, err := connections.All(cmd.Context(), runDir())
			device := ""
			if len(args) > 0 {
				device = args[0]
			}
			return errors.Join(print(cmd.OutOrStdout(), subsystemsOf(all, device), more), err)
		},
	}
	cmd.Flags().StringVarP(&format, "output-format", "o", "normal", "output format: normal|json")
	cmd.Flags().BoolVarP(&more, "verbose", "v", false, "model, firmware and iopolicy too")
	return cmd
}

// subsystemsOf are those of all processes, or that of one namespace.
func subsystemsOf(all []connections.Process, device string) (out []nvmecli.Subsystem) {
	for _, p := range all {
		for _, s := range p.Subsystems {
			if device != "" && !s.Has(device) {
				continue
			}
			sub := nvmecli.Subsystem{Name: s.Name, NQN: s.NQN, HostNQN: s.HostNQN, HostID: s.HostID, Model: s.Model, Firmware: s.Firmware, Policy: s.Policy, Type: "nvm", Serial: s.Serial, Namespaces: devicesOf(&s)}
			for i := range s.Controllers {
				c := &s.Controllers[i]
				path := nvmecli.Path{Name: c.Name, Transport: c.Transport, Address: c.Address(), State: string(c.State), ControllerID: c.ID}
				if n := s.Namespace(device); n != nil {
					path.ANA = n.ANA[c.Name]
				}
				sub.Paths = append(sub.Paths, path)
			}
			out = append(out, sub)
		}
	}
	return out
}

// devicesOf are the namespaces of a subsystem, as nvme list has them.
func devicesOf(s *connections.SubsystemInfo) (devices []nvmecli.Device) {
	for _, n := range s.Namespaces {
		devices = append(devices, nvmecli.Device{
			Node: n.Name, Generic: "ng" + n.Name[len("nvme"):], Serial: s.Serial, Model: s.Model, Firmware: s.Firmware,
			NSID: n.ID, Used: uint64(n.Used), Size: uint64(n.Size), BlockSize: n.BlockSize, URI: n.URI,
		})
	}
	return devices
}
