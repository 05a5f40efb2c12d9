package targetcommand

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/administer"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/scrape"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/signals"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Flags holds the flags of the target command.
type Flags struct {
	Listen       []string
	NQN          string
	Exports      []string
	Transport    string
	Polling      string
	Shards       int
	ackTimeout   time.Duration
	rcvbuf       config.Size
	congestion   config.Congestion
	shared       int
	allowHosts   []string
	AllowAnyHost bool

	logFormat string
	logLevel  string
	file      string
	socket    string
	sandbox   string
	metrics   scrape.Address
	events    string
	audit     string
	takes     takeoverMode
	detach    bool
	console   consoleFlags

	controllers controllerRange
	group       string
	gateway     string

	metricsHosts bool
}

// Command returns the command nvmeof target for a program of the given version. The command calls enter, which may be
// nil, before it serves.
func Command(enter Enter, version string) *cobra.Command {
	var f Flags
	cmd := &cobra.Command{
		Use:   "target (--config FILE | --listen ADDR --nqn NQN --export WHAT ... (--allow-host NQN ... | --allow-any-host))",
		Short: "Export memory, files and block devices to NVMe hosts",
		Long: `Export memory, files and block devices as the namespaces of one subsystem, until
interrupted. It needs no privileges and no RDMA hardware: with --transport softroce
it is a RoCEv2 endpoint on UDP port 4791 of the address. Hosts are refused unless
--allow-host names them. With --transport verbs it waits for an RDMA device that is
absent, and resumes when a device that was removed returns. With --config it serves
what a file describes. A running target can be changed: see nvmeof ls, and
nvmeof namespace add --help.`,
		Example: `  nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk \
    --export /srv/disk.img --allow-host nqn.2014-08.org.nvmexpress:uuid:...`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{signals.OwnHangup: "keys are read again"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, end := context.WithCancel(cmd.Context())
			defer end()
			cmd.SetContext(ctx)
			if f.file != "" || signals.Survives() {
				end = func() {}
			}
			if f.detach {
				return f.background(cmd)
			}
			d := &Daemon{Socket: f.socketGiven(cmd), enter: enter, version: version, takes: f.takes, controllers: f.controllers}
			defer signals.On(unix.SIGHUP, func() { d.hangUp(end) })() // first: without a handler the signal would end the process
			return d.begin(cmd, f.run)
		},
	}
	cmd.AddCommand(targetCommands()...)
	flags := cmd.Flags()
	flags.StringVar(&f.file, "config", "", "configuration file, YAML or JSON: see nvmeof target schema; not with flags that set the same")
	flags.StringVar(&f.socket, "socket", administer.DefaultSocket(), "path of the control socket, or "+noSocket+"; without --config the default is a socket beside it, named after the first address, which commands find")
	flags.StringArrayVar(&f.Listen, "listen", nil, "address to serve on, ADDR or ADDR:PORT (default port 4420); may be repeated; 0.0.0.0 or [::] is every address of that family, without loopback and link-local ones, also those that are added later")
	flags.StringVar(&f.NQN, "nqn", "", "name of the subsystem")
	flags.StringArrayVar(&f.Exports, "export", nil, "store of the next namespace: "+exportHelp)
	flags.StringVar(&f.Transport, "transport", provider.Softroce, "RDMA transport: "+provider.Help)
	flags.StringVar(&f.Transport, "provider", provider.Softroce, "same as --transport, the name that host commands use")
	flags.StringVar(&f.Polling, "polling", "auto", processors.PollingHelp)
	flags.IntVar(&f.Shards, "shards", 0, "number of threads that serve I/O queues, per address (default: half the processors)")
	flags.Var((*fabricoptions.Duration)(&f.ackTimeout), "ack-timeout", provider.AckTimeoutHelp)
	flags.Var((*sizeFlag)(&f.rcvbuf), "rcvbuf", "receive buffer of each socket, with softroce (default: 8 MiB, as far as allowed)")
	flags.Var((*provider.CongestionFlag)(&f.congestion), "congestion", provider.CongestionHelp)
	flags.IntVar(&f.shared, "shared-receives", 0, "number of 4 KiB receive buffers that the I/O queues of a thread share (default: none; each queue has its own)")
	flags.StringArrayVar(&f.allowHosts, "allow-host", nil, allowHostHelp)
	flags.BoolVar(&f.AllowAnyHost, "allow-any-host", false, "allow every host")
	flags.StringVar(&f.sandbox, "sandbox", sandboxAuto, sandboxHelp)
	f.addPlaces(flags)
	flags.StringVar(&f.audit, "audit", "", "file to which each change by the control socket is appended as a line of JSON: who, what, from, to; - is the log (default: none)")
	flags.StringVar(&f.events, "events", "", "file that keeps the events of nvmeof events across restarts (default: none)")
	flags.Var(&f.controllers, "controller-ids", controllersHelp)
	flags.Var(&f.takes, "takeover", takeoverHelp)
	flags.Lookup("takeover").NoOptDefVal = string(takeAlways)
	flags.BoolVar(&f.detach, "background", false, "with --takeover: return when the new process serves; it continues in the background and logs to this command's output, which should be a file, since a pipe stays open until it ends")
	flags.StringVar(&f.logFormat, "log-format", "auto", "auto, console or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// besides lists the flags that are allowed together with --config.
var besides = map[string]bool{"config": true, "socket": true, "sandbox": true, "log-format": true, "log-level": true, "takeover": true, "controller-ids": true, "background": true, "help": true}

// run runs the target command.
func (f *Flags) run(cmd *cobra.Command, d *Daemon, s *start) error {
	read := f.readFlags
	if f.file != "" {
		read = f.readFile
	}
	var err error
	if d.Log, err = NewLog(f.logFormat, f.logLevel, d.ErrOut, terminal.Is(cmd.ErrOrStderr())); err != nil {
		return err
	}
	d.Log = d.Log.WithOptions(zap.Hooks(d.lines.Count))
	if d.sandbox, err = parseSandbox(f.sandbox); err != nil {
		return err
	}
	if f.logLevel == "debug" {
		s.release()
	}
	if err := read(cmd, d); err != nil {
		return err
	}
	return d.Run(cmd.Context(), Machine{})
}

// readFile reads the document from --config.
func (f *Flags) readFile(cmd *cobra.Command, d *Daemon) (err error) {
	if f.file == "-" {
		return failure.Usagef("--config -: want a file, which is saved to, and read again after a restart")
	}
	for name := range flagsChanged(cmd) {
		if !besides[name] {
			return failure.Usagef("--config excludes --%s: set it in %s", name, f.file)
		}
	}
	// The process may be in another directory when the file is saved or read again.
	if d.File, err = filepath.Abs(f.file); err != nil {
		return err
	}
	d.Document, err = ReadConfig(cmd.Context(), f.file, nil, d.ErrOut)
	return err
}

// readFlags makes the document from the other flags. There is no file.
func (f *Flags) readFlags(_ *cobra.Command, d *Daemon) (err error) {
	if d.Document, err = f.Document(); err != nil {
		return err
	}
	d.Flags, d.names = f, f.names(d.Document)
	for _, w := range f.warnings(d.Document) {
		fmt.Fprintln(d.ErrOut, "warning:", w)
	}
	return nil
}

// socketGiven returns the value of --socket if it was given.
func (f *Flags) socketGiven(cmd *cobra.Command) string {
	if cmd.Flags().Changed("socket") {
		return f.socket
	}
	return ""
}
