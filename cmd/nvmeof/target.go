package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// targetFlags are what the target command takes.
type targetFlags struct {
	listen       string
	nqn          string
	exports      []string
	transport    string
	polling      string
	shards       int
	rcvbuf       int
	allowHosts   []string
	hosts        []allowedHost // what they mean
	allowAnyHost bool
	logFormat    string
	logLevel     string
}

func newTarget() *cobra.Command {
	var f targetFlags
	cmd := &cobra.Command{
		Use:   "target --listen ADDR --nqn NQN --export WHAT ... (--allow-host NQN ... | --allow-any-host)",
		Short: "Export memory, files and block devices to NVMe hosts",
		Long: `Exports memory, files and block devices as the namespaces of one subsystem, until interrupted.
Needs no privileges and no RDMA hardware: with --transport softroce it is a
RoCEv2 endpoint on UDP port 4791 of the address. Hosts are refused unless
--allow-host names them.`,
		Example: `  nvmeof target --listen 192.0.2.1 --nqn nqn.2026-11.org.example:disk \
    --export /srv/disk.img --allow-host nqn.2014-08.org.nvmexpress:uuid:...`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runTarget(cmd.Context(), &f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "address to serve on, ADDR or ADDR:PORT (port 4420)")
	flags.StringVar(&f.nqn, "nqn", "", "name of the subsystem")
	flags.StringArrayVar(&f.exports, "export", nil, "each is the next namespace: "+exportHelp)
	flags.StringVar(&f.transport, "transport", transportSoftroce, "RDMA transport: "+transportHelp)
	flags.StringVar(&f.transport, "provider", transportSoftroce, "the same as --transport: host commands have this name")
	flags.StringVar(&f.polling, "polling", "auto", pollingHelp)
	flags.IntVar(&f.shards, "shards", 0, "threads that serve I/O queues (default: half the processors)")
	flags.IntVar(&f.rcvbuf, "rcvbuf", 0, "bytes of each receive socket's buffer with softroce (default: 8 MiB, as far as allowed)")
	flags.StringArrayVar(&f.allowHosts, "allow-host", nil, allowHostHelp)
	flags.BoolVar(&f.allowAnyHost, "allow-any-host", false, "let every host connect")
	flags.StringVar(&f.logFormat, "log-format", "auto", "auto, console or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// check finds what is wrong with the flags, before anything is begun.
func (f *targetFlags) check() (netip.AddrPort, error) {
	switch {
	case f.listen == "":
		return netip.AddrPort{}, usage("--listen is missing: the address to serve on, as in --listen 192.0.2.1")
	case f.nqn == "":
		return netip.AddrPort{}, usage("--nqn is missing: the name of the subsystem, as in --nqn nqn.2026-11.org.example:disk")
	case len(f.exports) == 0:
		return netip.AddrPort{}, usage("--export is missing: what to serve, as in --export mem:1GiB or --export disk.img,size=10GiB")
	}
	addr, err := nvmeof.ParseListen(f.listen)
	switch {
	case err != nil:
		return addr, usage("--listen: %v", err)
	case !isTransport(f.transport):
		return addr, usage("--transport %s: want %s", f.transport, transportHelp)
	case len(f.allowHosts) == 0 && !f.allowAnyHost:
		return addr, usage("no host may connect: give --allow-host NQN (on a Linux host: cat /etc/nvme/hostnqn), or --allow-any-host")
	case f.shards < 0 || f.shards > maxShards:
		return addr, usage("--shards %d: at most %d", f.shards, maxShards)
	}
	if f.shards == 0 {
		f.shards = max(1, min(runtime.NumCPU()/2, maxShards))
	}
	for _, arg := range f.allowHosts {
		h, err := parseAllowHost(arg)
		if err == nil {
			_, _, err = h.config()
		}
		if err != nil {
			return addr, usage("--allow-host: %v", err)
		}
		f.hosts = append(f.hosts, h)
	}
	return addr, nil
}

func runTarget(ctx context.Context, f *targetFlags, out, errOut io.Writer) error {
	addr, err := f.check()
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
	needProcessors(f.shards)
	dev, err := openTransport(f.transport, addr.Addr(), f.shards, f.rcvbuf, log)
	if err != nil {
		return err
	}
	defer dev.Close()
	t, err := target.New(target.Config{Device: dev, Log: log, Shards: f.shards, Polling: polling})
	if err != nil {
		return err
	}
	s, stores, err := addExports(t, f, log)
	if err == nil {
		forget := rereadKeys(s, f.hosts, log)
		err = serve(ctx, t, f, addr, out, errOut, log)
		forget()
		logCounters(dev, log)
		log.Info("authentications", zap.Any("counters", t.AuthCounts()))
	}
	// Peers are told, then the stores are quiet.
	return errors.Join(err, t.Close(), closeStores(stores))
}

// serve serves until ctx ends.
func serve(ctx context.Context, t *target.Target, f *targetFlags, addr netip.AddrPort, out, errOut io.Writer, log *zap.Logger) error {
	l, err := t.Listen(addr)
	if err != nil {
		return err
	}
	announce(out, errOut, f, l.Addr())
	tellManager("READY=1")
	<-ctx.Done()
	log.Info("stopping")
	tellManager("STOPPING=1")
	return nil
}

// tellManager tells systemd how the service is (sd_notify), if that started it.
func tellManager(state string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(state))
}

// addExports creates the subsystem. It returns the stores that it opened even
// when it fails.
func addExports(t *target.Target, f *targetFlags, log *zap.Logger) (*target.Subsystem, []backend.Store, error) {
	s, err := t.AddSubsystem(target.SubsystemConfig{NQN: f.nqn})
	if err != nil {
		return nil, nil, usage("--nqn: %v", err)
	}
	if err := allow(s, f.hosts, log); err != nil {
		return nil, nil, fmt.Errorf("--allow-host: %w", err)
	}
	s.AllowAnyHost(f.allowAnyHost)
	var stores []backend.Store
	for _, arg := range f.exports {
		e, err := parseExport(arg)
		if err != nil {
			return s, stores, usage("--export: %v", err)
		}
		store, err := e.open(log)
		if err != nil {
			return s, stores, fmt.Errorf("--export %s: %w", arg, err)
		}
		stores = append(stores, store)
		if _, err := s.AddNamespace(target.NamespaceConfig{Store: store, Name: e.name()}); err != nil {
			return s, stores, fmt.Errorf("--export %s: %w", arg, err)
		}
	}
	return s, stores, nil
}

func closeStores(stores []backend.Store) (err error) {
	for _, s := range stores {
		err = errors.Join(err, s.Close())
	}
	return err
}

// announce tells how a Linux host gets here.
func announce(out, errOut io.Writer, f *targetFlags, at netip.AddrPort) {
	if f.allowAnyHost {
		fmt.Fprintln(errOut, "warning: --allow-any-host: every host that reaches this address may read and write what is exported")
	}
	fmt.Fprintf(out, "serving %d namespace(s) of %s on %v\n", len(f.exports), f.nqn, at)
	fmt.Fprintf(out, "on a Linux host: %s\n", connectLine(at, f.nqn))
}

// connectLine is what an administrator types on a Linux host.
func connectLine(at netip.AddrPort, nqn string) string {
	return fmt.Sprintf("nvme connect -t rdma -a %v -s %d -n %s", at.Addr(), at.Port(), nqn)
}
