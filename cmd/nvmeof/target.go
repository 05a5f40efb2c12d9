package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// targetFlags are what the target command takes.
type targetFlags struct {
	listen       []string
	nqn          string
	exports      []string
	transport    string
	polling      string
	shards       int
	ackTimeout   time.Duration
	rcvbuf       int
	congestion   config.Congestion
	shared       int
	allowHosts   []string
	hosts        []allowedHost // what they mean
	allowAnyHost bool
	logFormat    string
	logLevel     string
	configured   configFlags
}

func newTarget() *cobra.Command {
	var f targetFlags
	cmd := &cobra.Command{
		Use:   "target (--config FILE | --listen ADDR --nqn NQN --export WHAT ... (--allow-host NQN ... | --allow-any-host))",
		Short: "Export memory, files and block devices to NVMe hosts",
		Long: `Exports memory, files and block devices as the namespaces of one subsystem, until interrupted.
Needs no privileges and no RDMA hardware: with --transport softroce it is a
RoCEv2 endpoint on UDP port 4791 of the address. Hosts are refused unless
--allow-host names them. With --transport verbs it waits for an RDMA device that
is not there, and serves again when one that was removed comes back. With --config it
serves what a file describes, and can be changed while it runs.`,
		Example: `  nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk \
    --export /srv/disk.img --allow-host nqn.2014-08.org.nvmexpress:uuid:...`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.configured.file != "" {
				return f.runConfigured(cmd)
			}
			if cmd.Flags().Changed("socket") && f.configured.socket != noSocket {
				return usage("--socket: only a target with --config is controlled: write what it exports into a file (nvmeof target schema), or leave --socket out")
			}
			return runTarget(cmd.Context(), &f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.AddCommand(targetCommands()...)
	f.configured.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.listen, "listen", nil, "address to serve on, ADDR or ADDR:PORT (port 4420); may be given several times; 0.0.0.0 or [::] is every address of that family, without loopback and link-local ones, as they come")
	flags.StringVar(&f.nqn, "nqn", "", "name of the subsystem")
	flags.StringArrayVar(&f.exports, "export", nil, "each is the next namespace: "+exportHelp)
	flags.StringVar(&f.transport, "transport", transportSoftroce, "RDMA transport: "+transportHelp)
	flags.StringVar(&f.transport, "provider", transportSoftroce, "the same as --transport: host commands have this name")
	flags.StringVar(&f.polling, "polling", "auto", pollingHelp)
	flags.IntVar(&f.shards, "shards", 0, "threads that serve I/O queues, for each address (default: half the processors)")
	flags.Var((*patience)(&f.ackTimeout), "ack-timeout", ackTimeoutHelp)
	flags.IntVar(&f.rcvbuf, "rcvbuf", 0, "bytes of each receive socket's buffer with softroce (default: 8 MiB, as far as allowed)")
	flags.Var((*congestion)(&f.congestion), "congestion", congestionHelp)
	flags.IntVar(&f.shared, "shared-receives", 0, "receives, with 4 KiB each, that the I/O queues of a thread share (default: none; each queue has its own)")
	flags.StringArrayVar(&f.allowHosts, "allow-host", nil, allowHostHelp)
	flags.BoolVar(&f.allowAnyHost, "allow-any-host", false, "let every host connect")
	flags.StringVar(&f.logFormat, "log-format", "auto", "auto, console or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// check finds what is wrong with the flags, before anything is begun.
func (f *targetFlags) check() ([]netip.AddrPort, error) {
	switch {
	case len(f.listen) == 0:
		return nil, usage("--listen is missing: the address to serve on, as in --listen 192.0.2.1; or give --config FILE")
	case f.nqn == "":
		return nil, usage("--nqn is missing: the name of the subsystem, as in --nqn nqn.2026-11.org.example:disk")
	case len(f.exports) == 0:
		return nil, usage("--export is missing: what to serve, as in --export mem:1GiB or --export disk.img,size=10GiB")
	}
	addrs, err := f.addresses()
	switch {
	case err != nil:
		return nil, err
	case !isTransport(f.transport):
		return nil, usage("--transport %s: want %s", f.transport, transportHelp)
	case len(f.allowHosts) == 0 && !f.allowAnyHost:
		return nil, usage("no host may connect: give --allow-host NQN (on a Linux host: cat /etc/nvme/hostnqn), or --allow-any-host")
	case f.shards < 0 || f.shards > maxShards:
		return nil, usage("--shards %d: at most %d", f.shards, maxShards)
	}
	if f.shards == 0 {
		f.shards = max(1, min(runtime.NumCPU()/2, maxShards))
	}
	if _, err := nvmeof.AnyNQN(f.nqn); err != nil { // also where there is no device yet
		return nil, usage("--nqn: %v", err)
	}
	for _, arg := range f.allowHosts {
		h, err := parseAllowHost(arg)
		if err == nil {
			_, _, err = h.config()
		}
		if err != nil {
			return nil, usage("--allow-host: %v", err)
		}
		f.hosts = append(f.hosts, h)
	}
	return addrs, nil
}

// addresses are what --listen names.
func (f *targetFlags) addresses() ([]netip.AddrPort, error) {
	var addrs []netip.AddrPort
	for _, s := range f.listen {
		addr, err := nvmeof.ParseListen(s)
		switch {
		case err != nil:
			return nil, usage("--listen: %v: give one of this machine's, as ip address shows them, or 0.0.0.0 or [::] for all", err)
		case lacksZone(addr.Addr()):
			return nil, usage("--listen %v is link-local: name its interface, as in %v%%eth0", addr.Addr(), addr.Addr())
		case slices.Contains(addrs, addr):
			return nil, usage("--listen %v is there twice", addr)
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

func runTarget(ctx context.Context, f *targetFlags, out, errOut io.Writer) error {
	addrs, err := f.check()
	if err != nil {
		return err
	}
	log, err := newLog(f.logFormat, f.logLevel, errOut)
	if err != nil {
		return err
	}
	polling, err := parsePolling(f.polling)
	if err != nil {
		return err
	}
	needProcessors(f.shards, polling)
	if f.allowAnyHost {
		fmt.Fprintln(errOut, "warning: --allow-any-host: every host that reaches this address may read and write what is exported")
	}
	s := &service{flags: f, polling: polling, log: log, out: out}
	s.device = s.openDevice
	if err = s.open(); err == nil {
		err = s.run(ctx, addrs)
	}
	return errors.Join(err, s.close())
}

// open opens the stores.
func (s *service) open() error {
	for _, arg := range s.flags.exports {
		e, err := parseExport(arg)
		if err != nil {
			return usage("--export: %v", err)
		}
		store, err := e.open(s.log)
		if err != nil {
			return fmt.Errorf("--export %s: %w", arg, err)
		}
		s.exports = append(s.exports, exported{store, e.name(), arg, e.reservations()})
	}
	return nil
}

// close closes the stores, which are quiet by then.
func (s *service) close() (err error) {
	for _, e := range s.exports {
		err = errors.Join(err, e.store.Close())
	}
	return err
}
