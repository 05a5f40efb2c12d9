package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// targetFlags are what the target command takes.
type targetFlags struct {
	listen       string
	nqn          string
	exports      []string
	transport    string
	shards       int
	rcvbuf       int
	allowHosts   []string
	allowAnyHost bool
	logFormat    string
	logLevel     string
}

func newTarget() *cobra.Command {
	var f targetFlags
	cmd := &cobra.Command{
		Use:   "target --listen ADDR --nqn NQN --export WHAT ... (--allow-host NQN ... | --allow-any-host)",
		Short: "Export memory and files to NVMe hosts",
		Long: `Exports memory and files as the namespaces of one subsystem, until interrupted.
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
	flags.StringVar(&f.transport, "transport", "softroce", "RDMA transport: softroce")
	flags.IntVar(&f.shards, "shards", 0, "threads that serve I/O queues (default: half the processors)")
	flags.IntVar(&f.rcvbuf, "rcvbuf", 0, "bytes of each receive socket's buffer (default: 8 MiB, as far as allowed)")
	flags.StringArrayVar(&f.allowHosts, "allow-host", nil, "NQN of a host that may connect")
	flags.BoolVar(&f.allowAnyHost, "allow-any-host", false, "let every host connect")
	flags.StringVar(&f.logFormat, "log-format", "auto", "auto, console or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	for _, required := range []string{"listen", "nqn", "export"} {
		_ = cmd.MarkFlagRequired(required)
	}
	return cmd
}

func runTarget(ctx context.Context, f *targetFlags, out, errOut io.Writer) error {
	addr, err := nvmeof.ParseListen(f.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if f.transport != "softroce" {
		return fmt.Errorf("--transport %q: only softroce is available in this build", f.transport)
	}
	if len(f.allowHosts) == 0 && !f.allowAnyHost {
		return errors.New("no host may connect: give --allow-host NQN (on a Linux host: cat /etc/nvme/hostnqn), or --allow-any-host")
	}
	log, err := newLog(f.logFormat, f.logLevel, errOut)
	if err != nil {
		return err
	}
	if f.shards == 0 {
		f.shards = max(1, runtime.NumCPU()/2)
	}
	// A shard may keep a processor busy; the rest of the program needs its own.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), runtime.NumCPU()+f.shards))
	dev, err := softroce.Open(softroce.Config{Addr: addr.Addr(), Shards: f.shards, ReceiveBuffer: f.rcvbuf})
	if err != nil {
		return err
	}
	defer dev.Close()
	for _, w := range dev.Warnings() {
		log.Warn(w)
	}
	t, err := target.New(target.Config{Device: dev, Log: log, Shards: f.shards})
	if err != nil {
		return err
	}
	defer t.Close()
	stores, err := addExports(t, f)
	defer closeStores(stores, log)
	if err != nil {
		return err
	}
	l, err := t.Listen(addr)
	if err != nil {
		return err
	}
	announce(out, errOut, f, l.Addr())
	<-ctx.Done()
	log.Info("stopping")
	return t.Close()
}

// addExports creates the subsystem. It returns the stores that it opened even
// when it fails.
func addExports(t *target.Target, f *targetFlags) ([]backend.Store, error) {
	s, err := t.AddSubsystem(target.SubsystemConfig{NQN: f.nqn})
	if err != nil {
		return nil, fmt.Errorf("--nqn: %w", err)
	}
	for _, nqn := range f.allowHosts {
		s.AllowHost(nqn)
	}
	s.AllowAnyHost(f.allowAnyHost)
	var stores []backend.Store
	for _, arg := range f.exports {
		e, err := parseExport(arg)
		if err != nil {
			return stores, fmt.Errorf("--export: %w", err)
		}
		store, err := e.open()
		if err != nil {
			return stores, fmt.Errorf("--export %s: %w", arg, err)
		}
		stores = append(stores, store)
		if _, err := s.AddNamespace(target.NamespaceConfig{Store: store, Name: e.name()}); err != nil {
			return stores, fmt.Errorf("--export %s: %w", arg, err)
		}
	}
	return stores, nil
}

func closeStores(stores []backend.Store, log *zap.Logger) {
	for _, s := range stores {
		if err := s.Close(); err != nil {
			log.Error("close store", zap.Error(err))
		}
	}
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

// newLog writes for people on a terminal, else JSON.
func newLog(format, level string, out io.Writer) (*zap.Logger, error) {
	lvl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	console := format == "console" || format == "auto" && isTerminal(out)
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.ISO8601TimeEncoder
	var enc zapcore.Encoder
	switch {
	case console:
		enc = zapcore.NewConsoleEncoder(cfg)
	case format == "json" || format == "auto":
		enc = zapcore.NewJSONEncoder(cfg)
	default:
		return nil, fmt.Errorf("--log-format %q: it is auto, console or json", format)
	}
	return zap.New(zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(out)), lvl)), nil
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
