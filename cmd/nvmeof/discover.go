package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

func newDiscover() *cobra.Command {
	var c connection
	var format, raw string
	cmd := &cobra.Command{
		Use:     "discover -t rdma -a ADDR",
		Short:   "Ask a discovery controller what there is, as nvme discover",
		Example: "  nvmeof discover -t rdma -a 192.0.2.1 -s 4420",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, err := pick(format, map[string]func(*host.DiscoveryLog, io.Writer) error{
				"normal": func(l *host.DiscoveryLog, w io.Writer) error { return printable(l).Text(w) },
				"json":   func(l *host.DiscoveryLog, w io.Writer) error { return printable(l).JSON(w) },
				"binary": writeDiscovery,
			})
			if err != nil {
				return err
			}
			log, err := c.discover(cmd)
			if err != nil {
				return err
			}
			if raw != "" {
				return saveDiscovery(raw, log)
			}
			return print(log, cmd.OutOrStdout())
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVarP(&format, "output-format", "o", "normal", "output format: normal|json|binary")
	cmd.Flags().StringVarP(&raw, "raw", "r", "", "save raw output to file")
	return cmd
}

// pick finds the output format.
func pick[F any](format string, formats map[string]F) (F, error) {
	f, ok := formats[format]
	if !ok {
		names := make([]string, 0, len(formats))
		for name := range formats {
			names = append(names, name)
		}
		return f, usage("--output-format %s: it is one of %s%s", format, list(names), didYouMean(format, names))
	}
	return f, nil
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
	log, err := s.host.Discover(ctx, o)
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
