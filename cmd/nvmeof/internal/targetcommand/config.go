package targetcommand

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/provider"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// ReadConfig reads a document from a file, or from in if the name is -. It prints warnings to errOut.
func ReadConfig(ctx context.Context, name string, in io.Reader, errOut io.Writer) (*config.Document, error) {
	doc, cut, err := readWhole(ctx, name, in, errOut)
	if err == nil && cut != nil {
		fmt.Fprintln(errOut, "warning:", cut)
	}
	return doc, err
}

// readWhole is ReadConfig, but returns the warning of a possibly truncated file as cut.
func readWhole(ctx context.Context, name string, in io.Reader, errOut io.Writer) (doc *config.Document, cut, err error) {
	text, err := readFileOr(ctx, name, in)
	if err != nil {
		return nil, nil, err
	}
	doc, warnings, err := config.Parse(name, text)
	if err != nil {
		return nil, nil, failure.Usage{Err: err}
	}
	for _, w := range warnings {
		fmt.Fprintln(errOut, "warning:", w)
	}
	if config.EndsInLine(text) {
		cut = config.Problems{{File: name, At: config.Position{Line: 1 + bytes.Count(text, []byte("\n")), Column: len(text) - bytes.LastIndexByte(text, '\n')},
			Text: "the file ends within this line, and may be truncated", Fix: "end the last line with a newline if it is complete"}}
	}
	return doc, cut, nil
}

// readFileOr reads a file, or in if the name is -.
func readFileOr(ctx context.Context, name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return namedfile.ReadFrom(ctx, "standard input", in, config.MaxText)
	}
	return namedfile.Read(ctx, name, config.MaxText)
}

// stateDir returns the directory in which a target keeps the state for its next start; empty: none. It is systemd's
// StateDirectory, or the one that the XDG Base Directory Specification defines, or for root one in /var/lib.
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

// newConfigured makes a target with the settings of the document. An error prevents the start.
func newConfigured(d *Daemon, happened *events.Log) (*target.Target, error) {
	name, doc := d.File, d.Document
	if len(doc.Listeners) == 0 {
		return nil, failure.Usagef("%s: listeners is missing: where hosts connect, as in listeners: [{id: 1, address: 192.0.2.1}]", name)
	}
	cfg, err := targetConfig(doc, d.Log)
	if err != nil {
		return nil, err
	}
	cfg.Events = happened
	cfg.Controllers = d.controllers.ControllerRange
	if d.gateway != nil {
		cfg.Controllers, cfg.Gateway = d.gateway.Controllers(), d.gateway.Owned()
	}
	return target.New(cfg)
}

func targetConfig(doc *config.Document, log *zap.Logger) (target.Config, error) {
	l := &doc.Limits
	name := string(l.Polling)
	if name == "" {
		name = "auto"
	}
	polling, err := processors.ParsePolling(name)
	return target.Config{
		Log: log, Shards: shardsOf(doc), Polling: polling, SharedReceives: l.Shared,
		MaxQueues: l.Queues, QueueDepth: l.QueueDepth, InCapsule: int(l.InCapsule), MaxData: int(l.MaxData),
		MaxControllers: l.Controllers, QueueMemory: int64(l.QueueMemory), Revalidate: time.Duration(l.Revalidate),
		DiscoveryNQN: doc.DiscoveryNQN,
	}, err
}

// shardsOf returns the number of threads that a document configures.
func shardsOf(doc *config.Document) int {
	if n := doc.Limits.Shards; n > 0 {
		return n
	}
	return max(1, min(runtime.NumCPU()/2, provider.MaxShards))
}

// flagsChanged returns the names of the flags that were given.
func flagsChanged(cmd *cobra.Command) map[string]bool {
	names := map[string]bool{}
	for _, name := range failure.FlagNames(cmd) {
		if cmd.Flags().Changed(name) {
			names[name] = true
		}
	}
	return names
}
