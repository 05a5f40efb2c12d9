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

// Devices opens the device of one command.
type Devices interface {
	// AddFlags adds the flags that say which device is wanted.
	AddFlags(*cobra.Command)
	// Here opens a device for a server, at an address of this machine or, where own is
	// empty, the first that other machines reach. What is worth knowing about it goes to say.
	Here(ctx context.Context, own string, say io.Writer) (rdmatransport.Device, netip.Addr, error)
	// Towards opens a device for a client, at an address of this machine or, where own is
	// empty, the one from which the server is reached.
	Towards(server netip.Addr, own string, say io.Writer) (rdmatransport.Device, netip.Addr, error)
	// Address is the address that a text is, or is the name of.
	Address(ctx context.Context, text string) (netip.Addr, error)
}

// Command is "nvmeof rdma", whose commands have each devices of their own; those that
// measure report what makes a device slow.
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

// A session is what every command of a test has: how its end is opened, and what it
// prints.
type session struct {
	Devices
	own    string // our address; empty: chosen
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

// check reads what all commands have in common.
func (s *session) check() error {
	if s.port == 0 {
		return failure.Usagef("--port 0: 1 to 65535")
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

// client runs a client, from the address that leads to the server.
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
