package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/attach"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// attachment are the flags of attach.
type attachment struct {
	connection
	nsid    uint32
	socket  string
	clients int
	polling string
}

func newAttach() *cobra.Command {
	var a attachment
	cmd := &cobra.Command{
		Use:   "attach -t rdma -a ADDR -n NQN --socket PATH [--namespace-id N]",
		Short: "Publish namespaces to this machine as disks, by NBD on a unix socket",
		Long: `Connects to a controller and serves its namespaces to programs of this machine, as
exports of an NBD server: fio's nbd engine, qemu, and nbd-client, which makes a
block device of one. It says what to type, and ends on SIGTERM or an interrupt,
when what was begun has been finished and made durable.

An export is called as its namespace identifier; the first is the default one. The
socket has mode 0600. When the controller is lost, requests fail.`,
		Example: "  nvmeof attach -t rdma -a 192.0.2.1 -n NQN --socket /run/disk.sock\n" +
			"  fio --name=t --ioengine=nbd --uri='nbd+unix:///1?socket=/run/disk.sock' --rw=randread --bs=4k --iodepth=32",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			polling, err := parsePolling(a.polling)
			if err != nil {
				return err
			}
			if a.socket == "" {
				return usage("--socket is missing: the path of the unix socket to make, as in --socket /run/disk.sock")
			}
			runtime.GOMAXPROCS(runtime.NumCPU() + 1) // for the front end's loop; the host's add theirs
			server, err := nbd.Listen(nbd.Config{
				Socket: a.socket, Clients: a.clients, Polling: polling,
				Log: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof:", line) },
			})
			if err != nil {
				return err
			}
			// Before the controller goes, whose namespaces it serves.
			err = a.serve(cmd, server)
			return errors.Join(err, server.Close())
		},
	}
	a.addFlags(cmd)
	flags := cmd.Flags()
	flags.Uint32Var(&a.nsid, "namespace-id", 0, "identifier of the one namespace to publish (default: all)")
	flags.StringVar(&a.socket, "socket", "", "unix socket to serve on")
	flags.IntVar(&a.clients, "clients", 32, "connections to the socket at a time")
	flags.StringVar(&a.polling, "polling", "auto", pollingHelp)
	return cmd
}

// serve publishes the namespaces until the command is interrupted. Then, and not
// before, it takes leave of the controller.
func (a *attachment) serve(cmd *cobra.Command, front attach.FrontEnd) (err error) {
	s, err := a.open(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	ctx := cmd.Context()
	c, err := s.connect(ctx, a.nqn)
	if err != nil {
		return err
	}
	p := &publisher{controller: c, front: front, wanted: capsule.NSID(a.nsid)}
	if err := p.publish(ctx); err != nil {
		return err
	}
	p.tell(cmd.OutOrStdout())
	select {
	case <-ctx.Done():
	case <-c.Done():
		fmt.Fprintf(cmd.ErrOrStderr(), "nvmeof: the controller is lost, requests fail from now on: %v\n", c.Err())
		<-ctx.Done()
	}
	err = errors.Join(front.Close(), p.flush())
	if lost := c.Err(); lost != nil {
		return errors.Join(err, lost)
	}
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	return errors.Join(err, c.Disconnect(leave))
}

// leaveTime is how long a controller may take to let go.
const leaveTime = 5 * time.Second

// A publisher keeps a front end's disks as the controller's namespaces are.
type publisher struct {
	controller *host.Controller
	front      attach.FrontEnd
	wanted     capsule.NSID // 0: all

	mu         sync.Mutex // guards what follows
	namespaces []*host.Namespace
}

// publish looks at the namespaces and publishes what there is. A namespace whose size
// is another gets a disk of its own; clients of the old one keep that.
func (p *publisher) publish(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids, err := p.controller.Namespaces(ctx)
	if err != nil {
		return err
	}
	if p.wanted != 0 {
		if !slices.Contains(ids, p.wanted) {
			return usage("--namespace-id %d: there is no such namespace; there is: %s", p.wanted, list(texts(ids)))
		}
		ids = []capsule.NSID{p.wanted}
	}
	if len(ids) == 0 {
		return errors.New("the subsystem has no namespace")
	}
	var all []*host.Namespace
	var disks []attach.Disk
	for _, id := range ids {
		n, err := p.controller.Namespace(ctx, id)
		if err != nil {
			return err
		}
		n = p.same(n)
		all = append(all, n)
		disks = append(disks, p.disk(n))
	}
	p.namespaces = all
	return p.front.Publish(disks)
}

// same is the namespace as it was published, if nothing that matters has changed.
func (p *publisher) same(n *host.Namespace) *host.Namespace {
	for _, old := range p.namespaces {
		if old.ID() == n.ID() && old.Info() == n.Info() && old.Identifiers() == n.Identifiers() {
			return old
		}
	}
	return n
}

func (p *publisher) disk(n *host.Namespace) attach.Disk {
	info := n.Info()
	return attach.Disk{
		Name:        fmt.Sprint(uint32(n.ID())),
		Description: fmt.Sprintf("namespace %d, %d bytes in blocks of %d, UUID %v", uint32(n.ID()), info.Size, info.BlockSize, n.Identifiers().UUID),
		Store:       n,
		NewMemory: func(size int) (attach.Memory, error) {
			b, err := p.controller.NewBuffers(size)
			if err != nil {
				return nil, err
			}
			return b, nil
		},
	}
}

// tell prints what is published and what to type.
func (p *publisher) tell(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.namespaces {
		d := p.disk(n)
		fmt.Fprintln(w, d.Description)
		for _, line := range p.front.Usage(d) {
			fmt.Fprintln(w, "   ", line)
		}
	}
}

// flush makes everything durable that a front end has acknowledged.
func (p *publisher) flush() error {
	if p.controller.Err() != nil {
		return nil // it is told of elsewhere
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, n := range p.namespaces {
		if i := n.Info(); i.Volatile && !i.ReadOnly {
			errs = append(errs, n.Flush())
		}
	}
	return errors.Join(errs...)
}
