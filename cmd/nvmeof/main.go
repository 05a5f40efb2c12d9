// Command nvmeof is an NVMe over Fabrics (RDMA) target and host that needs no
// RDMA hardware. `nvmeof help` lists what it does.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/administer"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/rdmatools"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	err := execute(ctx, newRoot(), os.Args[1:])
	complain(os.Stderr, err)
	stop()
	os.Exit(exitCode(err))
}

// execute runs a command line. What goes wrong before the command itself runs is
// wrong use.
func execute(ctx context.Context, root *cobra.Command, args []string) error {
	running := false
	root.PersistentPreRun = func(*cobra.Command, []string) { running = true }
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !running {
		return usageError{Err: err}
	}
	return err
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "nvmeof",
		Short:         "NVMe over Fabrics target and host over RDMA, with or without RDMA hardware",
		Long:          "NVMe over Fabrics target and host over RDMA, with or without RDMA hardware.\n\n" + exitCodeHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newDemo(), newTarget(), newDiscover(), newList(), newBench(), newAttach(), newGenDHCHAPKey(), newDoctor(), newVersion(),
		rdmatools.Command(newRDMADevices))
	root.AddCommand(administer.Commands(newGenDHCHAPKey())...)
	root.AddCommand(nvmeverb.Common(newVerbConnection)...)
	addNVMeCommands(root)
	root.AddCommand(initiatorCommands()...)
	root.SetFlagErrorFunc(explainFlag)
	return root
}

// explainFlag says which flag was meant by one that does not exist.
func explainFlag(cmd *cobra.Command, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return fmt.Errorf("%w; see nvmeof %s --help", err, cmd.Name())
	}
	return fmt.Errorf("%w%s; see nvmeof %s --help", err, didYouMean(name, failure.FlagNames(cmd)), cmd.Name())
}

func didYouMean(s string, names []string) string { return failure.DidYouMean(s, names) }

func pick[F any](format string, formats map[string]F) (F, error) {
	return failure.Pick(format, formats)
}

func list(names []string) string { return failure.List(names) }
