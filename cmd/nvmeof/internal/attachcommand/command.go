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
		Long: `Connect to a subsystem and publish its namespaces to programs of this machine, as
exports of an NBD server. Clients are fio's nbd engine, qemu, and nbd-client, which
creates a block device. Each export is printed on a line, with example commands for
the first. On SIGTERM or an interrupt it completes and flushes the requests in
progress and ends. Then, and on SIGUSR1, it reports the numbers of clients,
requests and errors.

An export has two names: its namespace identifier and its UUID. A client that
reconnects by UUID gets the same disk or none, whatever has changed at the target.
The first namespace is the default export; no other replaces it while it is absent.
The socket has mode 0600 and is created when there is something to export. A
namespace whose store is missing at the target is published when the store appears.

--traddr takes several addresses, separated by commas, as paths to one subsystem.
Attach starts when one path is connected and connects the others in the background.
It waits for a target that does not answer yet or has no route yet; a path that is
refused is retried at increasing intervals. A lost controller is reconnected for as
long as another path is live. While no path is live, requests wait for at most
--fast_io_fail_tmo; after --ctrl-loss-tmo, also at the start, attach ends.`,
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
	flags.Uint32Var(&a.nsid, "namespace-id", 0, "identifier of the namespace to publish (default: all)")
	flags.StringVar(&a.socket, "socket", "", "unix socket to serve on")
	flags.IntVar(&a.clients, "clients", 32, "maximum number of connections to the socket")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "print example commands for each disk, not only for the first")
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
		return failure.Usagef("--socket is missing: the path of the unix socket to create, as in --socket /run/disk.sock")
	}
	if a.clients < 1 {
		return failure.Usagef("--clients %d: want at least 1", a.clients)
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
