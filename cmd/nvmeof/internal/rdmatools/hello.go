package rdmatools

import (
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// helloSize is the size of the single message in each direction of rdma_server and rdma_client, whose content is not
// used.
const helloSize = 16

// helloPort is the port of rdma_server.
const helloPort = 7471

var helloDepths = depths{1, 1, helloSize}

func newHello(d Devices) *cobra.Command {
	s := &session{Devices: d}
	cmd := &cobra.Command{
		Use:   "hello [SERVER]",
		Short: "One message each way, as rdma_server and rdma_client",
		Long: `Connect to the server and exchange one message with it, the simplest use of RDMA.
Without an address it is the server. The other end is the same command, or
rdma-core's rdma_server -s ADDR or rdma_client -s ADDR.`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.check(); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(args) == 0 {
				return s.serve(cmd.Context(), cmd.ErrOrStderr(), func(e *endpoint, l rdmatransport.Listener) error { return s.answerHello(e, l, out) })
			}
			server, err := s.Address(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.client(cmd.Context(), cmd.ErrOrStderr(), server, func(e *endpoint) error { return s.hello(e, server, out) })
		},
	}
	s.addFlags(cmd, helloPort)
	cmd.Flags().StringVar(&s.own, "host-traddr", "", ownHelp)
	return cmd
}

// ownHelp is the help text of the flag for this side's address.
const ownHelp = "this end's address (default: the first that other machines can reach for a server, the route's for a client)"

// answerHello answers one message.
func (s *session) answerHello(e *endpoint, l rdmatransport.Listener, out io.Writer) error {
	c, err := e.accept(l, unlimited, helloDepths)
	if err != nil {
		return err
	}
	defer c.close()
	if err := wantHello(c); err != nil {
		return err
	}
	if err := c.send(make([]byte, helloSize)); err != nil {
		return err
	}
	return s.saidHello(c, out, "answered %v\n")
}

// hello sends one message and waits for the answer.
func (s *session) hello(e *endpoint, server netip.Addr, out io.Writer) error {
	c, err := e.dial(call{to: netip.AddrPortFrom(server, s.port), reads: 1}, helloDepths)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.send(make([]byte, helloSize)); err != nil {
		return err
	}
	if err := wantHello(c); err != nil {
		return err
	}
	return s.saidHello(c, out, "%v answered\n")
}

func (s *session) saidHello(c *conn, out io.Writer, text string) error {
	if s.json() {
		return writeJSON(out, struct {
			Local  netip.AddrPort `json:"local"`
			Remote netip.AddrPort `json:"remote"`
		}{c.qp.LocalAddr(), c.qp.RemoteAddr()})
	}
	_, err := fmt.Fprintf(out, text, c.qp.RemoteAddr().Addr())
	return err
}

func wantHello(c *conn) error {
	b, err := c.receive()
	if err == nil && len(b) != helloSize {
		err = &failure.WrongData{Err: fmt.Errorf("message of %d bytes, want %d", len(b), helloSize)}
	}
	return err
}
