// Command nvmeof is an NVMe over Fabrics (RDMA) target and host that needs no
// RDMA hardware. `nvmeof help` lists what it does.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "nvmeof:", err)
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "nvmeof",
		Short:         "NVMe over Fabrics target and host over RDMA, with or without RDMA hardware",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newTarget(), newVersion())
	return root
}
