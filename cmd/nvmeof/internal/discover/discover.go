package discover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/nvmeof/discovery"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// Command returns the command nvmeof discover.
func Command() *cobra.Command {
	var f finder
	cmd := &cobra.Command{
		Use:   "discover [-t rdma -a ADDR]",
		Short: "Read the logs of discovery controllers, as nvme discover",
		Long: `Print the log of a discovery controller or, without --traddr, of each one in
nvme-cli's files: discovery.conf and config.json of version 2, nvme-fabrics.conf of
version 3. With --persistent it stays connected to these and their referrals until
interrupted, and prints added and removed entries.`,
		Example: "  nvmeof discover -t rdma -a 192.0.2.1 -s 4420",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.Held.AddFlags(cmd, "")
	f.Sources.AddFlags(cmd)
	flags := cmd.Flags()
	for _, name := range fabricoptions.LostNames() {
		_ = flags.MarkHidden(name)
	}
	flags.StringVarP(&f.format, "output-format", "o", "normal", "output format: normal|json|binary")
	flags.StringVarP(&f.raw, "raw", "r", "", "save raw output to file")
	flags.BoolVarP(&f.persistent, "persistent", "p", false, "stay connected and report changes")
	flags.BoolVarP(&f.dump, "dump-config", "O", false, "print the discovery controllers as a config.json, and end")
	return cmd
}

// A finder is a run of discover.
type finder struct {
	fabricoptions.Held
	Sources
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
	if err := f.Check(); err != nil {
		return err
	}
	show := func(l *host.DiscoveryLog) error {
		if f.raw != "" {
			return saveDiscovery(f.raw, l)
		}
		return print(l, cmd.OutOrStdout())
	}
	if f.Traddr != "" && !f.persistent && !f.dump {
		log, err := readLog(cmd, &f.Connection)
		var inUse *softroce.InUseError
		if err == nil {
			return show(log)
		}
		if !errors.As(err, &inUse) {
			return err
		} // otherwise the process that has the address may be able to read it
	}
	entries, wrong := f.Entries(cmd, &f.Held)
	switch {
	case len(entries) == 0:
		return wrong
	case f.dump:
		return errors.Join(DumpConfig(cmd.OutOrStdout(), entries, &f.Held), wrong)
	}
	return errors.Join(wrong, f.survey(cmd, entries, show))
}

// readLog reads the discovery log of the controller that the flags select.
func readLog(cmd *cobra.Command, c *fabricoptions.Connection) (log *host.DiscoveryLog, err error) {
	s, err := hosts.OpenSession(c, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	defer func() { hosts.Ended(cmd.ErrOrStderr(), s.Close()) }()
	return s.Discover(cmd.Context(), c.NQN)
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

// survey reads the logs of several discovery controllers, or follows them.
func (f *finder) survey(cmd *cobra.Command, entries []hostconfig.Entry, show func(*host.DiscoveryLog) error) (err error) {
	s := &Survey{Hosts: &hosts.Pool{Warn: cmd.ErrOrStderr()}}
	defer func() { err = errors.Join(err, s.Hosts.Close()) }()
	seeds, err := s.Seeds(entries, fabricoptions.Given(cmd))
	if len(seeds) == 0 {
		return err
	}
	config := discovery.Config{Persistent: f.persistent, Depth: -1, Attempts: 1}
	if f.persistent {
		config.Depth = 0 // the default
	}
	known := map[discovery.Endpoint]bool{}
	config.Event = func(e discovery.Event) {
		switch {
		case e.Kind == discovery.Logged && !known[e.At]:
			known[e.At] = true
			err = errors.Join(err, show(&host.DiscoveryLog{Generation: e.Log.Generation, Entries: e.Log.Entries}))
		case e.Kind == discovery.Logged, e.Kind == discovery.Skipped && !f.persistent:
		case e.Kind == discovery.Added || e.Kind == discovery.Removed:
			if f.persistent {
				err = errors.Join(err, printChange(cmd.OutOrStdout(), f.format, &e))
			}
		default:
			fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof:", e)
		}
	}
	failed := discovery.Run(cmd.Context(), config, s.Dialer(), seeds...)
	if failed != nil && !errors.Is(failed, context.Canceled) {
		failed = &failure.Connect{Err: failed}
	}
	return errors.Join(err, failed)
}

// printChange prints an event; in JSON as one object per line.
func printChange(w io.Writer, format string, e *discovery.Event) error {
	if format != "json" {
		_, err := fmt.Fprintln(w, e)
		return err
	}
	r := &e.Record
	return json.NewEncoder(w).Encode(change{e.Kind.String(), r.Entry.TRTYPE.String(), r.Traddr(), r.Trsvcid(), r.NQN()})
}

// A change is a line of discover --persistent -o json.
type change struct {
	Event   string `json:"event"` // added or removed
	TRTYPE  string `json:"trtype"`
	Traddr  string `json:"traddr"`
	Trsvcid string `json:"trsvcid"`
	SubNQN  string `json:"subnqn"`
}
