// Command nvmeof is an NVMe over Fabrics (RDMA) target and host that needs no
// RDMA hardware. `nvmeof help` lists what it does.
//
// This package makes the tree of commands and the exit codes. What the commands do is in
// packages below internal, each of which imports those before it:
//
//   - failure, terminal, signals, outlet, systemd, processors, scrape: errors by exit code, what is
//     printed, the machine, and what Prometheus reads
//   - provider, hostidentity, hostconfig, fabricoptions: the RDMA device, the names of this
//     host, the files of nvme-cli, and the options of connections in one table
//   - connections, hosts, lending, discover, keeper: controllers that processes hold and hand
//     to each other
//   - nvmecli, nvmeverb, statusreport, fabricaccess: nvme-cli's commands on one controller,
//     their output, and what is said where one is refused
//   - listing, connectcommand, attachcommand, benchcommand, rdmatools, demo, doctor: the other
//     commands of hosts, with fio, benchreport, perftest, rawudp and loopback
//   - sandbox, administer, targetcommand: the target, what it gives up before it serves, and what
//     changes one that runs
//   - activity, topcommand: what a target does, in tables
//   - manual: the manual pages of all of them
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

// secondSignal is how long after the first signal another one ends the program at once:
// timeout(1) sends two at a time.
const secondSignal = time.Second

func main() {
	// The main thread only waits. The kernel gives a signal to that thread first, and to no
	// other when it is in a call that signals do not interrupt: one to a file system that
	// does not answer.
	runtime.LockOSThread()
	code := make(chan int)
	go func() { code <- run() }() // ends with the command
	os.Exit(<-code)
}

// withoutCore keeps what the process has in memory, keys and the data of hosts, out of core files. A limit of
// one byte is no file, and the kernel hands nothing to a program that collects cores either
// (core(5), fs/coredump.c), which a limit of 0 lets it do.
func withoutCore() { _ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}) }

// run carries out the command line of the process, and returns its exit code.
func run() int {
	withoutCore()
	// Signals are not let through at the end: one that comes then does not change the exit code.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	context.AfterFunc(ctx, func() { // once: whoever interrupts again ends the program, whatever it waits for
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

// execute runs a command line. What goes wrong before the command itself runs is
// wrong use.
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
	case !running && asked(cmd, "version"): // it could not be written, which cobra has said
		return &failure.Said{Code: exitFailed}
	case !running:
		return usageError{Err: seeHelp(cmd, err)}
	}
	return err
}

// asked reports whether a command line has a flag.
func asked(cmd *cobra.Command, name string) bool {
	flag := cmd.Flags().Lookup(name)
	return flag != nil && flag.Changed
}

// newRoot is the tree of commands, of which the target calls enter, which may be nil: what the process
// gives up with it does not come back.
func newRoot(enter targetcommand.Enter) *cobra.Command { return newRootFor(nil, enter) }

// newRootFor is as much of the tree as a command line needs: all of it takes longer to make
// than most commands take to start.
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
			root.AddCommand(manual.Command(release)) // which has pages of all
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
