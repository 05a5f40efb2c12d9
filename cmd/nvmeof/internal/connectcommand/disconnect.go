package connectcommand

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
)

func newDisconnect() *cobra.Command {
	var nqn, device string
	cmd := &cobra.Command{
		Use:   "disconnect -n NQN | -d nvme0",
		Short: "Disconnect controllers that nvmeof connect holds, as nvme disconnect",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case nqn == "" && device == "":
				return failure.Usagef("--nqn or --device is missing: what to disconnect; nvmeof list-subsys shows it")
			case nqn != "" && device != "":
				return failure.Usagef("--nqn and --device exclude each other")
			}
			names, err := disconnectAll(cmd.Context(), nqn, device, "")
			if device != "" {
				if err == nil && len(names) == 0 {
					return failure.Usagef("Did not find device %s: no process of this user holds it; see nvmeof list-subsys", device)
				}
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "NQN:%s disconnected %d controller(s)\n", nqn, len(names))
			return err
		},
	}
	cmd.Flags().StringVarP(&nqn, "nqn", "n", "", "subsystem nqn")
	cmd.Flags().StringVarP(&device, "device", "d", "", "nvme device handle")
	return cmd
}

func newDisconnectAll() *cobra.Command {
	var transport string
	cmd := &cobra.Command{
		Use:   "disconnect-all",
		Short: "Disconnect all controllers that nvmeof connect holds, as nvme disconnect-all",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := disconnectAll(cmd.Context(), "", "", transport)
			return err
		},
	}
	cmd.Flags().StringVarP(&transport, "transport", "r", "", "transport type of the controllers to disconnect (default: all)")
	return cmd
}

// disconnectAll disconnects the matching controllers of all processes. It starts with those that are held for other
// processes, so that the borrowers do not see a loss and connect again.
func disconnectAll(ctx context.Context, nqn, device, transport string) (names []string, err error) {
	all, err := connections.All(ctx, connections.RunDir())
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
