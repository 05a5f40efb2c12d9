package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/administer"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// configFlags are the flags of a target that follows a file.
type configFlags struct {
	file   string
	socket string
	// device opens that of an address; nil: openProvider.
	device func(transport string, addr netip.Addr, cfg providerConfig) (rdmatransport.Device, error)
}

const noSocket = "none"

func (f *configFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "config", "", "serve what this file describes, YAML or JSON: see nvmeof target schema; not together with flags that describe the same")
	cmd.Flags().StringVar(&f.socket, "socket", administer.DefaultSocket(), "with --config: where to be controlled, or "+noSocket)
}

// besides are the flags that go together with --config.
var besides = map[string]bool{"config": true, "socket": true, "log-format": true, "log-level": true, "help": true}

// check refuses flags that say the same as the file.
func (f *configFlags) check(cmd *cobra.Command) error {
	if f.file == "-" {
		return usage("--config - : it needs a file, which is saved to and read again after a restart")
	}
	for name := range flagsChanged(cmd) {
		if !besides[name] {
			return usage("--config and --%s do not go together: write it into %s", name, f.file)
		}
	}
	return nil
}

// readConfig reads a file, - being standard input, and shows what is doubtful.
func readConfig(ctx context.Context, name string, in io.Reader, errOut io.Writer) (*config.Document, error) {
	text, err := readFileOr(ctx, name, in)
	if err != nil {
		return nil, err
	}
	doc, warnings, err := config.Parse(name, text)
	if err != nil {
		return nil, usageError{Err: err}
	}
	for _, w := range warnings {
		fmt.Fprintln(errOut, "warning:", w)
	}
	return doc, nil
}

// readFileOr reads a file, - being standard input.
func readFileOr(ctx context.Context, name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return namedfile.ReadFrom(ctx, "standard input", in, config.MaxText)
	}
	return namedfile.Read(ctx, name, config.MaxText)
}

// runConfigured is the target command with --config.
func (f *targetFlags) runConfigured(cmd *cobra.Command) error {
	if err := f.configured.check(cmd); err != nil {
		return err
	}
	log, err := newLog(f.logFormat, f.logLevel, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return runConfigured(cmd.Context(), &f.configured, log, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// runConfigured serves what a file describes until ctx ends.
func runConfigured(ctx context.Context, f *configFlags, log *zap.Logger, out, errOut io.Writer) (err error) {
	doc, err := readConfig(ctx, f.file, nil, errOut)
	if err != nil {
		return err
	}
	socket, err := f.takeSocket()
	if err != nil {
		return err
	}
	if socket != nil {
		defer func() { err = errors.Join(err, socket.Close()) }()
	}
	t, err := newConfigured(f.file, doc, log)
	if err != nil {
		return err
	}
	o := newOpener(f, doc, log)
	m := control.New(control.Config{Target: t, Settings: doc, Log: log, File: f.file, State: stateDir(),
		Device: o.open, Owner: o.owner, Serves: o.serves, Away: deviceMayCome, Closing: o.closing})
	defer func() {
		log.Info("authentications", zap.Any("counters", t.AuthCounts()))
		err = errors.Join(err, m.Close())
	}()
	defer onSignal(unix.SIGHUP, func() { // harmless too while it waits for its devices
		if _, err := m.RereadKeys(); err != nil {
			log.Error("keys", zap.Error(err))
		}
	})()
	if _, err := m.Apply(doc, control.Options{Wait: true}); err != nil {
		return err
	}
	if socket != nil {
		defer control.Serve(m, socket).Close()
		fmt.Fprintf(out, "controlled at %s\n", f.socket)
	}
	return serveConfigured(ctx, m, log, out)
}

// stateDir is where a target keeps what the next start has to know; empty: nowhere. It is
// systemd's StateDirectory, or what the XDG Base Directory Specification says, or for root
// /var/lib.
func stateDir() string {
	if dir := os.Getenv("STATE_DIRECTORY"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "files")
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "nvmeof", "files")
	}
	if os.Geteuid() == 0 {
		return "/var/lib/nvmeof/files"
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state", "nvmeof", "files")
}

// takeSocket takes the control socket before anything is begun: whoever starts a second
// target by mistake finds nothing changed. It is nil where there is to be none.
func (f *configFlags) takeSocket() (*control.Socket, error) {
	if f.socket == noSocket {
		return nil, nil
	}
	return control.Listen(f.socket)
}

// serveConfigured is ready for hosts and administrators until ctx ends.
func serveConfigured(ctx context.Context, m *control.Manager, log *zap.Logger, out io.Writer) error {
	announceAll(out, m.Document(), m.Status().Addresses)
	tellManager("READY=1")
	<-ctx.Done()
	log.Info("stopping")
	tellManager("STOPPING=1")
	return nil
}

// maxAnnounced is how many subsystems are told of.
const maxAnnounced = 10

func announceAll(out io.Writer, doc *config.Document, everywhere []control.Address) {
	for i, s := range doc.Subsystems {
		if i == maxAnnounced {
			fmt.Fprintf(out, "and %d more: nvmeof ls\n", len(doc.Subsystems)-i)
			return
		}
		fmt.Fprintf(out, "serving %d namespace(s) of %s\n", len(s.Namespaces), s.NQN)
		for _, l := range doc.Listeners {
			if s.On(l.ID) && !l.Wildcard() {
				fmt.Fprintf(out, "on a Linux host: %s\n", connectLine(l.Address.AddrPort, string(s.NQN)))
			}
		}
		for _, a := range everywhere {
			if at, err := netip.ParseAddrPort(a.Address); err == nil && s.On(a.Listener) {
				fmt.Fprintf(out, "on a Linux host: %s\n", connectLine(at, string(s.NQN)))
			}
		}
	}
}

// newConfigured makes a target of the settings of a document, from the file of that name.
// What it refuses no target starts with.
func newConfigured(name string, doc *config.Document, log *zap.Logger) (*target.Target, error) {
	if len(doc.Listeners) == 0 {
		return nil, usage("%s: listeners is missing: where hosts connect, as in listeners: [{id: 1, address: 192.0.2.1}]", name)
	}
	cfg, err := targetConfig(doc, log)
	if err != nil {
		return nil, err
	}
	return target.New(cfg)
}

func targetConfig(doc *config.Document, log *zap.Logger) (target.Config, error) {
	l := &doc.Limits
	name := string(l.Polling)
	if name == "" {
		name = "auto"
	}
	polling, err := parsePolling(name)
	return target.Config{
		Log: log, Shards: shardsOf(doc), Polling: polling, SharedReceives: l.Shared,
		MaxQueues: l.Queues, QueueDepth: l.QueueDepth, InCapsule: int(l.InCapsule), MaxData: int(l.MaxData),
		MaxControllers: l.Controllers, QueueMemory: int64(l.QueueMemory), Revalidate: time.Duration(l.Revalidate),
		DiscoveryNQN: string(doc.DiscoveryNQN),
	}, err
}

// shardsOf is how many threads a document asks for.
func shardsOf(doc *config.Document) int {
	if n := doc.Limits.Shards; n > 0 {
		return n
	}
	return max(1, min(runtime.NumCPU()/2, maxShards))
}

// flagsChanged are the names of the flags that were given.
func flagsChanged(cmd *cobra.Command) map[string]bool {
	names := map[string]bool{}
	for _, name := range failure.FlagNames(cmd) {
		if cmd.Flags().Changed(name) {
			names[name] = true
		}
	}
	return names
}
