// Command nvmeof is an NVMe over Fabrics (RDMA) target and host that needs no
// RDMA hardware. `nvmeof help` lists what it does.
//
// This package builds the tree of commands and defines the exit codes. The commands are implemented in packages below
// internal, each of which imports only those before it:
//
//   - failure, terminal, signals, outlet, systemd, processors, scrape: errors with exit codes, output, the machine, and
//     metrics for Prometheus
//   - provider, hostidentity, hostconfig, fabricoptions: the RDMA device, the names of this host, the files of
//     nvme-cli, and the table of connection options
//   - connections, hosts, lending, discover, keeper: controllers that processes hold, also for each other
//   - nvmecli, nvmeverb, statusreport, fabricaccess: nvme-cli's commands on one controller, their output, and the
//     report of a rejected command
//   - listing, connectcommand, attachcommand, benchcommand, rdmatools, demo, doctor: the other commands of hosts, with
//     fio, benchreport, perftest, rawudp and loopback
//   - sandbox, token, takeover, gateway, activity, console, administer, targetcommand: the target with its sandbox,
//     tokens, takeovers, group, activity and web console, and the commands that change a running one
//   - topcommand: the display of a target's activity
//   - manual: the manual pages of all commands
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/administer"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/attachcommand"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connectcommand"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/demo"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/discover"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/doctor"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricaccess"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostidentity"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/listing"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/manual"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/rdmatools"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/sandbox"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/signals"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/statusreport"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/targetcommand"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/token"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/topcommand"
)

// secondSignal is the time after the first signal during which further ones are ignored; after it, another signal ends
// the program at once. timeout(1) sends two at a time.
const secondSignal = time.Second

func main() {
	// The main thread only waits. The kernel delivers a signal to that thread first, and to no other while it is in an
	// uninterruptible system call, such as one to a file system that does not answer.
	runtime.LockOSThread()
	code := make(chan int)
	go func() { code <- run() }() // ends with the command
	os.Exit(<-code)
}

// withoutCore keeps the memory of the process, which contains keys and data of hosts, out of core files. With a limit
// of one byte the kernel writes no file, and does not start a program that collects core dumps either (core(5),
// fs/coredump.c); with a limit of 0 it would.
func withoutCore() { _ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}) }

// run executes the command line of the process, and returns its exit code.
func run() int {
	withoutCore()
	// stop is not called at the end, so that a signal that arrives then does not change the exit code.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	context.AfterFunc(ctx, func() { // once: a second interrupt ends the program, whatever it waits for
		time.Sleep(secondSignal)
		stop()
	})
	root := newRootFor(os.Args[1:], sandbox.Enter)
	if cmd, _, err := root.Find(os.Args[1:]); err != nil || cmd.Annotations[signals.OwnHangup] == "" {
		ctx = signals.EndOnHangup(ctx)
	}
	err := execute(ctx, root, os.Args[1:])
	statusreport.Print(os.Stderr, err)
	return exitCode(err)
}

// execute executes a command line. An error before the command itself runs is a usage error.
func execute(ctx context.Context, root *cobra.Command, args []string) error {
	running := false
	root.PersistentPreRun = func(*cobra.Command, []string) { running = true }
	helped := helpFails(root)
	args = administer.JoinSave(root, args)
	root.SetArgs(args)
	if err := unknownVerb(root, args); err != nil {
		return err
	}
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return helped()
	case !running && asked(cmd, "version"): // it could not be written, which cobra has printed
		return &failure.Said{Code: exitFailed}
	case !running:
		return usageError{Err: seeHelp(cmd, err)}
	}
	return err
}

// asked reports whether a flag was given on the command line.
func asked(cmd *cobra.Command, name string) bool {
	flag := cmd.Flags().Lookup(name)
	return flag != nil && flag.Changed
}

// newRoot returns the whole tree of commands. The target calls enter, which may be nil, to enter the sandbox; this
// cannot be undone.
func newRoot(enter targetcommand.Enter) *cobra.Command { return newRootFor(nil, enter) }

// newRootFor returns the part of the tree that a command line needs, because making all of it takes longer than most
// commands take to start.
func newRootFor(args []string, enter targetcommand.Enter) *cobra.Command {
	root := &cobra.Command{
		Use:           "nvmeof",
		Short:         "NVMe over Fabrics target and host over RDMA, with or without RDMA hardware",
		Long:          "NVMe over Fabrics target and host over RDMA, with or without RDMA hardware.\n\n" + exitCodeHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),

		DisableSuggestions: true, // seeHelp makes them
	}
	root.SetVersionTemplate("{{.Version}}\n")
	for _, add := range []func(){
		func() { root.AddCommand(targetcommand.Command(enter, release), newVersion()) },
		func() { root.AddCommand(attachcommand.Command(release), discover.Command(), listing.List()) },
		func() {
			root.AddCommand(demo.Command(), newBench(), hostidentity.GenDHCHAPKey(), doctor.Command(),
				rdmatools.Command(fabricaccess.NewRDMADevices), topcommand.Command(), token.Command())
		},
		func() { root.AddCommand(connectcommand.Commands(release)...) },
		func() { root.AddCommand(administer.Commands(hostidentity.GenDHCHAPKey())...) },
		func() { root.AddCommand(nvmeverb.Common(fabricaccess.NewVerbConnection())...) },
		func() {
			root.AddCommand(manual.Command(release)) // needs all commands, for their pages
			addNVMeCommands(root)
		},
	} {
		add()
		if cmd, _, err := root.Find(args); err == nil && cmd != root {
			break
		}
	}
	return root
}
