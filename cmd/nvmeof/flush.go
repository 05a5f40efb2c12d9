package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

func newFlush() *cobra.Command {
	var c connection
	var nsid uint32
	cmd := &cobra.Command{
		Use:   "flush -t rdma -a ADDR -n NQN [--namespace-id N]",
		Short: "Make everything written durable, as nvme flush",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.connected(cmd, func(ctx context.Context, h *host.Controller) error {
				id, err := chooseNamespace(ctx, h, nsid)
				if err != nil {
					return err
				}
				ns, err := h.Namespace(ctx, id)
				if err != nil {
					return err
				}
				if err := ns.Flush(); err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "NVMe Flush: success")
				return err
			})
		},
	}
	c.addFlags(cmd)
	addNamespaceFlag(cmd, &nsid)
	return cmd
}
