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
		Short: "Set which path requests take to subsystems that nvmeof connect holds",
		Long: `Sets by which rule requests take one of several paths to a subsystem that nvmeof connect
or connect-all holds, or to all of them. Of paths the optimized ones come first: numa takes
the one whose device is nearest to the processor of the request, and of equals stays with the
first, round-robin takes one after the other, queue-depth the one with the fewest requests
in flight, latency the one that is likely to answer first.
nvmeof list-subsys -v shows it.`,
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
			return failure.Usagef("there is no such subsystem: nvmeof list-subsys shows what processes of this user hold")
		},
	}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "nqn name")
	cmd.Flags().StringVarP(&device, "device", "d", "", "the subsystem, or a controller or namespace of it")
	return cmd
}
