package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hostconfig"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmecli"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// initiatorCommands are those about controllers that stay connected.
func initiatorCommands() []*cobra.Command {
	return []*cobra.Command{newConnect(), newConnectAll(), newDisconnect(), newDisconnectAll(), newListSubsys(), newIOPolicy()}
}

func runDir() string { return connections.Dir(os.Getenv, os.Getuid()) }

func newConnect() *cobra.Command {
	var h held
	var format string
	var idempotent, dump, noPublish bool
	cmd := &cobra.Command{
		Use:   "connect -t rdma -a ADDR -n NQN",
		Short: "Connect to a subsystem and stay connected, as nvme connect",
		Long: `Connects to a subsystem, and keeps the connection until it is interrupted, or
disconnected by nvmeof disconnect. There is no kernel driver behind it: this process is
what has the controller. nvmeof list-subsys, list and disconnect find it.

Each namespace is published to this machine by an NBD server with a unix socket of mode
0600 in this user's run folder, /run/nvmeof-host/nvme0n1.sock for root. Where each is
is said when it comes, and by nvmeof list; nvmeof attach says what to type with it. What
clients did is said when it goes, and on SIGUSR1. When the controller is lost, requests
wait for it as the timeouts below say. A target that does not answer yet, or takes nobody
yet, or to which no route leads yet, is waited for as long as for one that was lost (--ctrl-loss-tmo).

Where another such process is the RoCE endpoint of this host's address already, that one
connects, and this one stays for as long; when that one ends, this one connects itself.

What would be connected is printed as a config.json, with its secrets, by --dump-config.`,
		Example: "  nvmeof connect -t rdma -a 192.0.2.1 -s 4420 -n NQN --ctrl-loss-tmo=-1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			print, err := failure.Pick(format, connectFormats)
			if err != nil {
				return err
			}
			wanted, identity, err := h.wanted()
			if err != nil {
				return err
			}
			if dump {
				return dumpConfig(cmd.OutOrStdout(), []hostconfig.Entry{{Options: asWhom(settings(cmd), identity)}}, &h)
			}
			there, err := connected(cmd, wanted, h.duplicate)
			if err != nil || there != "" {
				if err == nil && idempotent {
					return print(cmd.OutOrStdout(), there)
				}
				return alreadyConnected(there, err)
			}
			for {
				err := h.hold(cmd, asWhom(settings(cmd), identity), print, noPublish)
				if !errors.Is(err, errOwnerEnded) {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof:", err)
			}
		},
	}
	h.addFlags(cmd, "d")
	flags := cmd.Flags()
	flags.StringVarP(&format, "output-format", "o", "normal", "output format: normal|json")
	flags.BoolVar(&idempotent, "idempotent", false, "succeed where there is such a connection already, and end")
	flags.BoolVar(&noPublish, "no-publish", false, noPublishHelp)
	flags.BoolVarP(&dump, "dump-config", "O", false, "print what would be connected as a config.json, and end")
	return cmd
}

var connectFormats = map[string]func(io.Writer, string) error{
	"normal": nvmecli.ConnectText, "json": nvmecli.ConnectJSON,
}

// connected is the controller that is such a connection already, if that matters.
func connected(cmd *cobra.Command, w connections.Wanted, duplicate bool) (string, error) {
	if duplicate {
		return "", nil
	}
	all, err := connections.All(cmd.Context(), runDir())
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", err)
	}
	c, _ := connections.Find(all, w)
	return c.Name, nil
}

func alreadyConnected(name string, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("already connected: it is %s; --duplicate-connect connects again, --idempotent is content with it", name)
}

// dumpConfig prints connections as a config.json.
func dumpConfig(out io.Writer, entries []hostconfig.Entry, h *held) error {
	for i := range entries {
		if entries[i].Options["transport"] == "" {
			entries[i].Options["transport"] = h.transport
		}
	}
	text, err := hostconfig.WriteJSON(entries)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// hold connects and stays.
func (h *held) hold(cmd *cobra.Command, options map[string]string, print func(io.Writer, string) error, noPublish bool) (err error) {
	ctx := cmd.Context()
	k, err := startKeeper(cmd, noPublish)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	if err := k.serve(); err != nil {
		return err
	}
	name, err := k.connectPatiently(ctx, h, options)
	if err != nil {
		return err
	}
	if err := print(cmd.OutOrStdout(), name); err != nil {
		return err
	}
	tellManager("READY=1")
	defer tellManager("STOPPING=1")
	if err := k.wait(ctx); err != nil {
		return &failure.Connect{Err: err}
	}
	return nil
}

// A keeper is what a process that holds controllers consists of.
type keeper struct {
	warn   io.Writer
	hosts  *hosts
	holder *connections.Holder
	server *connections.Server
	lent   loans
	owners *owners
	forget func() // ends telling on SIGUSR1
}

func startKeeper(cmd *cobra.Command, noPublish bool) (*keeper, error) {
	polling, err := parsePolling("auto")
	if err != nil {
		return nil, err
	}
	k := &keeper{warn: cmd.ErrOrStderr(), hosts: &hosts{warn: cmd.ErrOrStderr()}, owners: newOwners(), forget: func() {}}
	c := connections.Config{
		Dir: runDir(), Connector: connections.Multipath{}, Addresses: k.hosts.addresses,
		Log: func(line string) { fmt.Fprintln(k.warn, "nvmeof:", line) },
	}
	if !noPublish {
		front := &sockets{dir: c.Dir, polling: polling, log: c.Log, servers: map[string]*nbd.Server{}}
		k.forget = onSignal(unix.SIGUSR1, front.tell)
		c.FrontEnd = front
	}
	k.holder = connections.New(c)
	return k, nil
}

const noPublishHelp = "do not publish namespaces as disks of this machine"

// serve lets others find the process.
func (k *keeper) serve() (err error) {
	k.server, err = connections.Serve(k.holder, connections.Services{
		Connect: func(ctx context.Context, options map[string]string) (string, error) {
			h, err := newHeld(options)
			if err != nil {
				return "", err
			}
			return k.connect(ctx, h)
		},
		Discover: func(ctx context.Context, options map[string]string) ([]byte, error) {
			return discoverForOthers(ctx, k.hosts, options)
		},
		Recall: k.recall,
	})
	return err
}

// connectTime bounds how long one connection may take.
const connectTime = time.Minute

func (k *keeper) connect(ctx context.Context, h *held) (string, error) {
	p, err := h.path(k.hosts)
	if err != nil {
		return "", err
	}
	_, identity, err := h.wanted()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	defer tellSilence(k.warn, p)()
	name, err := k.holder.Connect(ctx, p)
	if err != nil {
		return "", explain(ctx, err, identity)
	}
	fmt.Fprintln(k.warn, "nvmeof:", effective(name, &p))
	return name, nil
}

// connectPause is the first between attempts that may succeed by themselves.
const connectPause = time.Second

// connectPatiently is connectAnyhow for as long as what stands in the way may pass by
// itself, but no longer than for a controller that was lost.
func (k *keeper) connectPatiently(ctx context.Context, h *held, options map[string]string) (string, error) {
	for r := h.retry(k.warn); ; {
		name, err := k.connectAnyhow(ctx, h, options)
		if err == nil || r.late() || !connections.Passing(err) && !isNoRoute(err) {
			return name, err
		}
		if err := r.wait(ctx, err); err != nil {
			return "", err
		}
	}
}

func (k *keeper) close() error {
	var err error
	if k.server != nil {
		err = k.server.Close()
	}
	k.owners.close()
	err = errors.Join(err, k.giveBack(), k.holder.Close(), k.hosts.close())
	k.forget()
	return err
}
