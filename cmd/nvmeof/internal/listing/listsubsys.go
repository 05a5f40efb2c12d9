package listing

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
)

// ListSubsys returns the command nvmeof list-subsys.
func ListSubsys() *cobra.Command {
	var format string
	var more bool
	cmd := &cobra.Command{
		Use:   "list-subsys [nvme0n1]",
		Short: "List the subsystems that nvmeof connect holds, as nvme list-subsys",
		Long: `List the subsystems that nvmeof connect and connect-all hold, with their paths. For
a device, a namespace or a controller, it also shows the ANA state of each live
path.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			print, err := failure.Pick(format, map[string]func(io.Writer, []nvmecli.Subsystem, bool) error{
				"normal": nvmecli.SubsystemsText, "json": nvmecli.SubsystemsJSON,
			})
			if err != nil {
				return err
			}
			all, err := connections.All(cmd.Context(), connections.RunDir())
			device := ""
			if len(args) > 0 {
				device = args[0]
			}
			return errors.Join(print(cmd.OutOrStdout(), subsystemsOf(all, device), more), err)
		},
	}
	cmd.Flags().StringVarP(&format, "output-format", "o", "normal", "output format: normal|json")
	cmd.Flags().BoolVarP(&more, "verbose", "v", false, "also show model, firmware, iopolicy, and why a path is not live")
	return cmd
}

// subsystemsOf returns the subsystems of all processes, or that of one device.
func subsystemsOf(all []connections.Process, device string) (out []nvmecli.Subsystem) {
	for _, p := range all {
		for _, s := range p.Subsystems {
			if device != "" && !s.Has(device) {
				continue
			}
			sub := nvmecli.Subsystem{Name: s.Name, NQN: s.NQN, HostNQN: s.HostNQN, HostID: s.HostID, Model: s.Model, Firmware: s.Firmware, Policy: s.Policy, Type: "nvm", Serial: s.Serial, Namespaces: devicesOf(&s)}
			for i := range s.Controllers {
				c := &s.Controllers[i]
				path := nvmecli.Path{Name: c.Name, Transport: c.Transport, Address: c.Address(), State: string(c.State), Error: c.Error, ControllerID: c.ID}
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

// devicesOf returns the namespaces of a subsystem, as nvme list shows them.
func devicesOf(s *connections.SubsystemInfo) (devices []nvmecli.Device) {
	for _, n := range s.Namespaces {
		devices = append(devices, nvmecli.Device{
			Node: n.Name, Generic: "ng" + n.Name[len("nvme"):], Serial: s.Serial, Model: s.Model, Firmware: s.Firmware,
			NSID: n.ID, Used: uint64(n.Used), Size: uint64(n.Size), BlockSize: n.BlockSize, URI: n.URI,
		})
	}
	return devices
}
