package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

func newDiscover() *cobra.Command {
	var f finder
	cmd := &cobra.Command{
		Use:   "discover [-t rdma -a ADDR]",
		Short: "Ask discovery controllers what there is, as nvme discover",
		Long: `Prints the log of a discovery controller or, without --traddr, of each that the files of
nvme-cli name: discovery.conf and config.json of version 2, nvme-fabrics.conf of version 3.
With --persistent it stays connected until it is interrupted, to those too to which they
refer, and prints what is added and removed.`,
		Example: "  nvmeof discover -t rdma -a 192.0.2.1 -s 4420",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.held.addFlags(cmd, "")
	f.sources.addFlags(cmd)
	flags := cmd.Flags()
	for _, name := range lostOptions() {
		_ = flags.MarkHidden(name)
	}
	flags.StringVarP(&f.format, "output-format", "o", "normal", "output format: normal|json|binary")
	flags.StringVarP(&f.raw, "raw", "r", "", "save raw output to file")
	flags.BoolVarP(&f.persistent, "persistent", "p", false, "stay connected, and tell of changes")
	flags.BoolVarP(&f.dump, "dump-config", "O", false, "print the discovery controllers as a config.json, and end")
	return cmd
}

// A finder is discover.
type finder struct {
	held
	sources
	persistent, dump bool
	format, raw      string
}

func (f *finder) run(cmd *cobra.Command) error {
	print, err := failure.Pick(f.format, map[string]func(*host.DiscoveryLog, io.Writer) error{
		"normal": func(l *host.DiscoveryLog, w io.Writer) error { return printable(l).Text(w) },
		"json":   func(l *host.DiscoveryLog, w io.Writer) error { return printable(l).JSON(w) },
		"binary": writeDiscovery,
	})
	if err != nil {
		return err
	}
	if err := f.checkHeld(); err != nil {
		return err
	}
	show := func(l *host.DiscoveryLog) error {
		if f.raw != "" {
			return saveDiscovery(f.raw, l)
		}
		return print(l, cmd.OutOrStdout())
	}
	if f.traddr != "" && !f.persistent && !f.dump {
		log, err := f.discover(cmd)
		var inUse *softroce.InUseError
		if err == nil {
			return show(log)
		}
		if !errors.As(err, &inUse) {
			return err
		} // else the process may ask that has the address
	}
	entries, wrong := f.entries(cmd, &f.held)
	switch {
	case len(entries) == 0:
		return wrong
	case f.dump:
		return errors.Join(dumpConfig(cmd.OutOrStdout(), entries, &f.held), wrong)
	}
	return errors.Join(wrong, f.survey(cmd, entries, show))
}

// discover reads the discovery log that the flags point at.
func (c *connection) discover(cmd *cobra.Command) (log *host.DiscoveryLog, err error) {
	s, err := c.open(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.discover(cmd.Context(), c.nqn)
}

func (s *session) discover(ctx context.Context, nqn string) (*host.DiscoveryLog, error) {
	o, err := s.flags.options(s.addr, nqn)
	if err != nil {
		return nil, err
	}
	answered := tellSilence(s.warn, connections.Path{Options: o})
	log, err := s.host.Discover(ctx, o)
	answered()
	if err != nil {
		return nil, s.refused(ctx, err, nvmeof.DiscoveryNQN)
	}
	return log, nil
}

func printable(l *host.DiscoveryLog) *nvmecli.Discovery {
	return &nvmecli.Discovery{Generation: l.Generation, Entries: l.Entries}
}

func writeDiscovery(l *host.DiscoveryLog, w io.Writer) error {
	b := make([]byte, capsule.DiscoveryHeaderSize+len(l.Entries)*capsule.DiscoveryEntrySize)
	capsule.DiscoveryHeader{GENCTR: l.Generation, NUMREC: uint64(len(l.Entries))}.Encode(b)
	for i := range l.Entries {
		l.Entries[i].Encode(b[capsule.DiscoveryHeaderSize+i*capsule.DiscoveryEntrySize:])
	}
	_, err := w.Write(b)
	return err
}

func saveDiscovery(path string, l *host.DiscoveryLog) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(writeDiscovery(l, f), f.Close())
}
