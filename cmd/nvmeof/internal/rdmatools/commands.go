package rdmatools

import (
	"context"
	"errors"
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Devices opens the device of a command.
type Devices interface {
	// AddFlags adds the flags that select the device.
	AddFlags(*cobra.Command)
	// Here opens a device for a server, at the local address own; if own is empty, at the first address that other
	// machines can reach. Warnings about the device are written to say.
	Here(ctx context.Context, own string, say io.Writer) (rdmatransport.Device, netip.Addr, error)
	// Towards opens a device for a client, at the local address own; if own is empty, at the source address of the
	// route to the server.
	Towards(server netip.Addr, own string, say io.Writer) (rdmatransport.Device, netip.Addr, error)
	// Address parses an address, or resolves a name.
	Address(ctx context.Context, text string) (netip.Addr, error)
}

// Command returns the command "nvmeof rdma". It calls devices for each of its commands; those that measure report what
// makes a device slow.
func Command(devices func(measures bool) Devices) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rdma",
		Short: "Measure RDMA itself, without NVMe: ping, bandwidth and latency between two machines",
		Long: `Measure RDMA without NVMe, to separate the network from the storage. Each command is
one end of a test. The other end is the same command on another machine, rdma-core's
rping, or a program of perftest with -R: see the command's help. Neither end needs
an RNIC.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPing(devices(false)), newHello(devices(false)))
	for _, m := range measurements {
		cmd.AddCommand(newMeasure(m, devices(true)))
	}
	return cmd
}

// A session holds what every command of a test has: how its end is opened, and what it prints.
type session struct {
	Devices
	own    string // this side's address; empty: chosen automatically
	port   uint16
	events bool
	format string
}

func (s *session) addFlags(cmd *cobra.Command, port uint16) {
	f := cmd.Flags()
	f.Uint16VarP(&s.port, "port", "p", port, "the server's port")
	f.BoolVarP(&s.events, "events", "e", false, "wait for events instead of polling; always so on a single processor")
	f.StringVarP(&s.format, "output-format", "o", "normal", "output format: normal|json")
	s.AddFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("output-format", cobra.FixedCompletions([]string{"normal", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// check checks the flags that all commands have.
func (s *session) check() error {
	if s.port == 0 {
		return failure.Usagef("--port 0: want 1 to 65535")
	}
	_, err := failure.Pick(s.format, map[string]bool{"normal": true, "json": true})
	return err
}

func (s *session) json() bool { return s.format == "json" }

// serve listens and runs a server.
func (s *session) serve(ctx context.Context, say io.Writer, run func(*endpoint, rdmatransport.Listener) error) (err error) {
	dev, addr, err := s.Here(ctx, s.own, say)
	if err != nil {
		return err
	}
	e, err := newEndpoint(ctx, dev, addr, s.events, say)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	var l rdmatransport.Listener
	err = e.blocking(stepTimeout, func(context.Context) (err error) {
		l, err = dev.Listen(netip.AddrPortFrom(addr, s.port))
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = e.blocking(stepTimeout, func(context.Context) error { return l.Close() }) }()
	if _, err := io.WriteString(say, "listening on "+l.Addr().String()+"\n"); err != nil {
		return err
	}
	return run(e, l)
}

// client runs a client, at the address from which the server is reached.
func (s *session) client(ctx context.Context, say io.Writer, server netip.Addr, run func(*endpoint) error) (err error) {
	dev, addr, err := s.Towards(server, s.own, say)
	if err != nil {
		return err
	}
	e, err := newEndpoint(ctx, dev, addr, s.events, say)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	return run(e)
}
