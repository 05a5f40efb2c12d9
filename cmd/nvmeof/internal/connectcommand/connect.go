package connectcommand

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/discover"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/fabricoptions"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/keeper"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/lending"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/listing"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/outlet"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/scrape"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/systemd"
)

// Commands returns the commands about controllers that stay connected, for a program of the given version.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{newConnect(version), newConnectAll(version), newDisconnect(), newDisconnectAll(), listing.ListSubsys(), newIOPolicy()}
}

const noPublishHelp = "do not publish namespaces as disks of this machine"

const connectHelp = `Connect to a subsystem and keep the connection until interrupted or disconnected by
nvmeof disconnect. No kernel driver is involved: this process holds the controller.
nvmeof list-subsys, list and disconnect find it.

Each namespace is published to this machine by an NBD server on a unix socket of
mode 0600 in this user's runtime directory, /run/nvmeof-host/nvme0n1.sock for root.
The path is printed when the namespace is published, and by nvmeof list; see nvmeof
attach --help for how to use it. Statistics of the clients are printed when it is
withdrawn, and on SIGUSR1.

When the controller is lost, requests wait for it: see the timeouts below. A target
that does not answer yet, does not accept hosts yet, or has no route yet is waited
for as long as for a lost one (--ctrl-loss-tmo).

If another such process already is the RoCE endpoint of this host's address, it
connects on behalf of this process, for as long as this process runs. When the other
process ends, this process connects itself.

--dump-config prints the connection as a config.json, including its secrets.`

func newConnect(version string) *cobra.Command {
	var h fabricoptions.Held
	var at scrape.Address
	var format string
	var idempotent, dump, noPublish bool
	cmd := &cobra.Command{
		Use:     "connect -t rdma -a ADDR -n NQN",
		Short:   "Connect to a subsystem and stay connected, as nvme connect",
		Long:    connectHelp,
		Example: "  nvmeof connect -t rdma -a 192.0.2.1 -s 4420 -n NQN --ctrl-loss-tmo=-1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, err := failure.Pick(format, connectFormats)
			if err != nil {
				return err
			}
			wanted, identity, err := h.Wanted()
			if err != nil {
				return err
			}
			if dump {
				return discover.DumpConfig(cmd.OutOrStdout(), []hostconfig.Entry{{Options: fabricoptions.AsWhom(fabricoptions.Given(cmd), identity)}}, &h)
			}
			if there := connected(cmd, wanted, h.Duplicate); there != "" {
				if idempotent {
					return print(cmd.OutOrStdout(), there)
				}
				return fmt.Errorf("already connected as %s; --duplicate-connect connects again, --idempotent accepts that", there)
			}
			return holdAgain(cmd, &at, version, func(m *measured) error {
				return hold(cmd, &h, fabricoptions.AsWhom(fabricoptions.Given(cmd), identity), print, noPublish, m)
			})
		},
	}
	h.AddFlags(cmd, "d")
	flags := cmd.Flags()
	at.AddTo(flags)
	flags.StringVarP(&format, "output-format", "o", "normal", "output format: normal|json")
	flags.BoolVar(&idempotent, "idempotent", false, "succeed and end if there is such a connection already")
	flags.BoolVar(&noPublish, "no-publish", false, noPublishHelp)
	flags.BoolVarP(&dump, "dump-config", "O", false, "print the connection as a config.json, and end")
	return cmd
}

// holdAgain calls hold, and again whenever the process has ended that held the controllers for this one. It serves the
// counters meanwhile.
func holdAgain(cmd *cobra.Command, at *scrape.Address, version string, hold func(*measured) error) error {
	scraped, err := at.Listen()
	if err != nil {
		return err
	}
	defer outlet.Detach(cmd)()
	m := &measured{}
	defer scrape.Serve(scraped, cmd.ErrOrStderr(), m.source(version))()
	for {
		err := hold(m)
		if !errors.Is(err, lending.ErrLenderEnded) {
			return err
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof:", err)
	}
}

var connectFormats = map[string]func(io.Writer, string) error{
	"normal": nvmecli.ConnectText, "json": nvmecli.ConnectJSON,
}

// connected returns the name of the controller that already has this connection; "" if there is none, or duplicate
// requests another one.
func connected(cmd *cobra.Command, w connections.Wanted, duplicate bool) string {
	if duplicate {
		return ""
	}
	all, err := connections.All(cmd.Context(), connections.RunDir())
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", err)
	}
	c, _ := connections.Find(all, w)
	return c.Name
}

// warnApart warns if another process has connected the same subsystem from another address of this host: the kernel's
// driver would make a second path of the connection, but here the data appears as two disks.
func warnApart(cmd *cobra.Command, name string) {
	all, _ := connections.All(cmd.Context(), connections.RunDir())
	if c, ok := connections.Apart(all, name); ok {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: the subsystem is already connected, as %s by %s: %s is not a second path to those disks, but provides separate disks with the same data: use only one of the two; "+
			"for several paths to one disk use nvmeof attach -a ADDR,ADDR or connect-all\n", c.Name, c.Traddr, name)
	}
}

// hold connects, and stays until the command is interrupted or nothing is connected any more. It returns
// [lending.ErrLenderEnded] if the command is to connect again.
func hold(cmd *cobra.Command, h *fabricoptions.Held, options map[string]string, print func(io.Writer, string) error, noPublish bool, m *measured) (err error) {
	ctx := cmd.Context()
	k, err := keeper.Start(cmd.ErrOrStderr(), noPublish)
	if err != nil {
		return err
	}
	m.keeper.Store(k)
	defer func() { err = errors.Join(err, k.Close()) }()
	if err := k.Serve(); err != nil {
		return err
	}
	name, err := k.ConnectPatiently(ctx, h, options)
	if err != nil {
		return err
	}
	if err := print(cmd.OutOrStdout(), name); err != nil {
		return err
	}
	if !h.Duplicate {
		warnApart(cmd, name)
	}
	systemd.Notify("READY=1")
	err = k.Wait(ctx)
	if !errors.Is(err, lending.ErrLenderEnded) { // otherwise the command continues, and systemd kills a unit that continues after this
		systemd.Notify("STOPPING=1")
	}
	if err != nil {
		return &failure.Connect{Err: err}
	}
	return nil
}
