package attachcommand

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/outlet"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/scrape"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/signals"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// attachment holds the flags of attach.
type attachment struct {
	fabricoptions.Held
	nsid    uint32
	socket  string
	clients int
	polling string
	verbose bool
	metrics scrape.Address
}

// Command returns the command nvmeof attach for a program of the given version.
func Command(version string) *cobra.Command {
	var a attachment
	cmd := &cobra.Command{
		Use:   "attach -t rdma -a ADDR -n NQN --socket PATH [--namespace-id N]",
		Short: "Publish namespaces to this machine as disks, by NBD on a unix socket",
		Long: `Connects to a subsystem and serves its namespaces to programs of this machine, as
exports of an NBD server: fio's nbd engine, qemu, and nbd-client, which makes a
block device of one. It prints where each is, in a line, and for the first the commands to type. On SIGTERM or an interrupt it
completes and flushes the requests that have begun, and ends. Then, and on SIGUSR1, it reports
how many clients and requests there were, and which errors they had.

The name of an export is its namespace identifier; the first is the default export, and
no other takes its place while it is not there. Its UUID is a name of it too: a client that names
that, and comes back, finds the disk that it had or none, whatever has become of the target. The socket has mode 0600, and is created
when there is something to serve. A namespace that the target lists while what it exports is missing there is published when it comes. --traddr takes several
addresses with commas between them: paths to one subsystem. It begins when one of them
leads there, for which it waits where a target does not answer yet or no route leads to it,
and goes on with the others by itself: one that is refused is tried again, ever more slowly. When a controller
is lost it is connected to again, for as long as that takes while there is another one; without any
requests wait, as --fast_io_fail_tmo says, and after --ctrl-loss-tmo it ends, as it does at the start.`,
		Example: "  nvmeof attach -t rdma -a 192.0.2.1 -n NQN --socket /run/disk.sock\n" +
			"  fio --name=t --ioengine=nbd --uri='nbd+unix:///1?socket=/run/disk.sock' --rw=randread --bs=4k --iodepth=32",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.run(cmd, version)
		},
	}
	a.AddFlags(cmd, "")
	flags := cmd.Flags()
	_ = flags.MarkHidden("duplicate-connect")
	flags.Uint32Var(&a.nsid, "namespace-id", 0, "identifier of the one namespace to publish (default: all)")
	flags.StringVar(&a.socket, "socket", "", "unix socket to serve on")
	flags.IntVar(&a.clients, "clients", 32, "connections to the socket at a time")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "print what to type for each disk, and not for the first alone")
	a.metrics.AddTo(flags)
	flags.StringVar(&a.polling, "polling", "auto", processors.PollingHelp)
	return cmd
}

// run runs the command.
func (a *attachment) run(cmd *cobra.Command, version string) error {
	polling, err := processors.ParsePolling(a.polling)
	if err != nil {
		return err
	}
	if a.socket == "" {
		return failure.Usagef("--socket is missing: the path of the unix socket to make, as in --socket /run/disk.sock")
	}
	if a.clients < 1 {
		return failure.Usagef("--clients %d: at least 1", a.clients)
	}
	if err := nbd.Vacant(a.socket); err != nil {
		return err
	}
	scraped, err := a.metrics.Listen()
	if err != nil {
		return err
	}
	defer outlet.Detach(cmd)()
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // for the front end's loop; the host's loops add theirs
	log := func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof:", line) }
	f := &front{cfg: nbd.Config{Socket: a.socket, Clients: a.clients, Polling: polling, Log: log}}
	print := func() { fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof: nbd:", f.stats()) }
	defer signals.On(unix.SIGUSR1, print)()
	s := &measured{front: f, version: version}
	defer scrape.Serve(scraped, cmd.ErrOrStderr(), s.source())()
	err = errors.Join(a.serve(cmd, f, s), f.Close())
	if f.stats() != (nbd.Stats{}) {
		print()
	}
	return err
}

// serve publishes the namespaces until the command is interrupted or no controller is left. Only then it disconnects
// the controllers.
func (a *attachment) serve(cmd *cobra.Command, front *front, s *measured) (err error) {
	all := &hosts.Pool{Warn: cmd.ErrOrStderr()}
	s.hosts.Store(all)
	defer func() { err = errors.Join(err, all.Close()) }()
	p := &publisher{front: front, wanted: capsule.NSID(a.nsid), verbose: a.verbose, warn: cmd.ErrOrStderr(), news: make(chan struct{}, 1)}
	p.lines = connections.NewLines("the subsystem", front.cfg.Log)
	absent, err := a.connect(cmd.Context(), all, p)
	if err != nil {
		return err
	}
	s.subsystem.Store(&p.subsystem)
	late := followAbsent(cmd.Context(), all, p, absent)
	err = p.serve(cmd.Context(), cmd.OutOrStdout())
	late()
	_ = front.Close() // it uses memory of the subsystem; the caller reports the error
	return errors.Join(err, p.leave())
}
