package connectcommand

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// newIOPolicy returns the command that replaces echo NAME > /sys/class/nvme-subsystem/nvme-subsys0/iopolicy of Linux.
func newIOPolicy() *cobra.Command {
	var nqn, device string
	cmd := &cobra.Command{
		Use:   "iopolicy [-n NQN | -d nvme-subsys0] numa|round-robin|queue-depth|latency",
		Short: "Set the I/O policy of subsystems that nvmeof connect holds",
		Long: `Set how requests are distributed over the paths to a subsystem that nvmeof connect or
connect-all holds, or to all such subsystems. Optimized paths are preferred. Of these,
numa uses the path whose device is nearest to the request's processor, the first if
several are; round-robin uses each in turn; queue-depth the one with the fewest
requests in flight; latency the one with the lowest expected latency. nvmeof
list-subsys -v shows the policy.`,
		Example: "  nvmeof iopolicy -d nvme-subsys0 round-robin",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := multipath.ParsePolicy(args[0]); err != nil {
				return failure.Usagef("iopolicy %v", err)
			}
			all, err := connections.All(cmd.Context(), connections.RunDir())
			errs := []error{err}
			found := 0
			for i := range all {
				names, err := all[i].SetPolicy(cmd.Context(), nqn, device, args[0])
				errs = append(errs, err)
				for _, name := range names {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: iopolicy=%s\n", name, args[0])
				}
				found += len(names)
			}
			if err := errors.Join(errs...); err != nil || found > 0 {
				return err
			}
			return failure.Usagef("no such subsystem: nvmeof list-subsys shows those that processes of this user hold")
		},
	}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "subsystem nqn")
	cmd.Flags().StringVarP(&device, "device", "d", "", "device of the subsystem, or of one of its controllers or namespaces")
	return cmd
}
