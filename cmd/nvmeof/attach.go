package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/attach"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// attachment are the flags of attach.
type attachment struct {
	held
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
		Long: `Connects to a subsystem and serves its namespaces to programs of this machine, as
exports of an NBD server: fio's nbd engine, qemu, and nbd-client, which makes a
block device of one. It says what to type, and ends on SIGTERM or an interrupt,
when what was begun has been finished and made durable. Then, and on SIGUSR1, it tells
how many clients and requests there were, and what went wrong with them.

An export is called as its namespace identifier; the first is the default one. The
socket has mode 0600, and comes when there is something to serve. A namespace that the
target lists while what it exports is missing there is published when it comes. --traddr takes several
addresses with commas between them: paths to one subsystem. It begins when one of them
leads there, for which it waits where a target does not answer yet or no route leads to it,
and goes on with the others by itself: one that is refused is tried again, ever more slowly. When a controller
is lost it is connected to again; without any requests wait, as --fast_io_fail_tmo says,
and after --ctrl-loss-tmo it ends, as it does at the start.`,
		Example: "  nvmeof attach -t rdma -a 192.0.2.1 -n NQN --socket /run/disk.sock\n" +
			"  fio --name=t --ioengine=nbd --uri='nbd+unix:///1?socket=/run/disk.sock' --rw=randread --bs=4k --iodepth=32",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			polling, err := parsePolling(a.polling)
			if err != nil {
				return err
			}
			if a.socket == "" {
				return failure.Usagef("--socket is missing: the path of the unix socket to make, as in --socket /run/disk.sock")
			}
			if err := nbd.Vacant(a.socket); err != nil {
				return err
			}
			runtime.GOMAXPROCS(runtime.NumCPU() + 1) // for the front end's loop; the host's add theirs
			f := &front{cfg: nbd.Config{
				Socket: a.socket, Clients: a.clients, Polling: polling,
				Log: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof:", line) },
			}}
			tell := func() { fmt.Fprintln(cmd.ErrOrStderr(), "nvmeof: nbd:", f.stats()) }
			forget := onSignal(unix.SIGUSR1, tell)
			err = errors.Join(a.serve(cmd, f), f.Close())
			forget()
			if f.stats() != (nbd.Stats{}) {
				tell()
			}
			return err
		},
	}
	a.addFlags(cmd, "")
	flags := cmd.Flags()
	_ = flags.MarkHidden("duplicate-connect")
	flags.Uint32Var(&a.nsid, "namespace-id", 0, "identifier of the one namespace to publish (default: all)")
	flags.StringVar(&a.socket, "socket", "", "unix socket to serve on")
	flags.IntVar(&a.clients, "clients", 32, "connections to the socket at a time")
	flags.StringVar(&a.polling, "polling", "auto", pollingHelp)
	return cmd
}

// serve publishes the namespaces until the command is interrupted, or no controller is
// left. Then, and not before, it takes leave of the controllers.
func (a *attachment) serve(cmd *cobra.Command, front attach.FrontEnd) (err error) {
	all := &hosts{warn: cmd.ErrOrStderr()}
	defer func() { err = errors.Join(err, all.close()) }()
	p := &publisher{front: front, wanted: capsule.NSID(a.nsid), warn: cmd.ErrOrStderr(), news: make(chan struct{}, 1)}
	absent, err := a.connect(cmd.Context(), all, p)
	if err != nil {
		return err
	}
	late := a.follow(cmd.Context(), all, p, absent)
	err = p.serve(cmd.Context(), cmd.OutOrStdout())
	late()
	err = errors.Join(err, front.Close()) // which has memory of the subsystem
	return errors.Join(err, p.flush(), p.subsystem.Close())
}

// A front is an NBD server that listens from the moment on at which it has a disk.
type front struct {
	cfg    nbd.Config
	server atomic.Pointer[nbd.Server] // nil: not yet
}

// Publish implements [attach.FrontEnd].
func (f *front) Publish(disks []attach.Disk) error {
	if s := f.server.Load(); s != nil {
		return s.Publish(disks)
	}
	s, err := nbd.Listen(f.cfg, disks...)
	if err == nil {
		f.server.Store(s)
	}
	return err
}

// URI and Usage implement [attach.FrontEnd]; a disk has been published before.
func (f *front) URI(d attach.Disk) string     { return f.server.Load().URI(d) }
func (f *front) Usage(d attach.Disk) []string { return f.server.Load().Usage(d) }

// Close implements [attach.FrontEnd].
func (f *front) Close() error {
	if s := f.server.Load(); s != nil {
		return s.Close()
	}
	return nil
}

func (f *front) stats() nbd.Stats {
	if s := f.server.Load(); s != nil {
		return s.Stats()
	}
	return nbd.Stats{}
}

// connect connects by all addresses to which there is a route, and returns the others.
func (a *attachment) connect(ctx context.Context, all *hosts, p *publisher) (absent []*held, err error) {
	paths, absent, err := a.routed(ctx, all, p.warn)
	if err != nil {
		return nil, err
	}
	silence := startSilence(p.warn, paths...)
	defer silence.stop()
	m := connections.Multipath{Wait: true, Attempt: silence.failed}
	if p.subsystem, p.controllers, err = m.Connect(ctx, paths, p.changed); err != nil {
		o := paths[0].Options
		return nil, explain(ctx, err, nvmeof.HostIdentity{NQN: o.HostNQN, ID: o.HostID})
	}
	for i := range paths {
		p.names = append(p.names, paths[i].Options.Traddr.String())
	}
	return absent, nil
}

// routed are the paths to which there is a route, and what the others would be. Where
// there is none it waits for the first, as long as for a controller that was lost.
func (a *attachment) routed(ctx context.Context, all *hosts, warn io.Writer) (paths []connections.Path, absent []*held, err error) {
	r := a.retry(warn)
	for {
		var missing error
		paths, absent = nil, nil
		for _, one := range a.each() {
			path, err := one.path(all)
			switch {
			case isNoRoute(err):
				missing = errors.Join(missing, err)
				absent = append(absent, one)
			case err != nil:
				return nil, nil, err
			default:
				paths = append(paths, path)
			}
		}
		if len(paths) > 0 {
			return paths, absent, nil
		}
		if r.late() {
			return nil, nil, missing
		}
		if err := r.wait(ctx, missing); err != nil {
			return nil, nil, err
		}
	}
}

// follow adds the paths that had no route, each when it has one and a controller at its
// end, until stop is called.
func (a *attachment) follow(ctx context.Context, all *hosts, p *publisher, absent []*held) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, one := range absent {
		running.Go(func() {
			for r := one.retry(p.warn); ; {
				path, err := one.path(all)
				if err == nil {
					var c connections.Controller
					if c, err = p.subsystem.Add(ctx, path); err == nil {
						p.come(latecomer{path.Options.Traddr.String(), c})
						return
					}
				}
				if r.wait(ctx, err) != nil {
					return
				}
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// A latecomer is a path that had no route at first.
type latecomer struct {
	name       string
	controller connections.Controller
}

// come hands a path over to the command's goroutine. Any goroutine may call it.
func (p *publisher) come(l latecomer) {
	p.mu.Lock()
	p.late = append(p.late, l)
	p.mu.Unlock()
	p.changed()
}

// welcome takes the paths that have come.
func (p *publisher) welcome() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.late {
		p.names = append(p.names, l.name)
		p.controllers = append(p.controllers, l.controller)
		p.told = append(p.told, connections.Status{State: connections.Connecting})
	}
	p.late = nil
}

// A publisher keeps a front end's disks as the subsystem's namespaces are. It belongs
// to the command's goroutine.
type publisher struct {
	subsystem   connections.Subsystem
	controllers []connections.Controller
	names       []string             // of the controllers
	told        []connections.Status // of them
	front       attach.FrontEnd
	wanted      capsule.NSID // 0: all
	warn        io.Writer
	news        chan struct{}
	namespaces  []connections.Namespace
	printed     map[backend.Store]bool // those that a user was told of

	mu   sync.Mutex // guards what follows
	late []latecomer
}

// changed tells that there may be something new. Any goroutine may call it.
func (p *publisher) changed() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// serve publishes what there is, and follows it. What is wanted and waits at the target is
// waited for.
func (p *publisher) serve(ctx context.Context, out io.Writer) error {
	if err := p.first(ctx); err != nil {
		return err
	}
	if err := p.publish(); err != nil {
		return err
	}
	for {
		p.tell(out)
		if err := p.states(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.news:
		}
		if _, err := p.look(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(p.warn, "nvmeof:", err)
		}
		if err := p.publish(); err != nil {
			fmt.Fprintln(p.warn, "nvmeof:", err)
		}
	}
}

// first looks until there is a namespace to publish, as long as one that is wanted waits at
// the target. After silenceTime it says what is waited for.
func (p *publisher) first(ctx context.Context) error {
	slow := time.NewTimer(silenceTime)
	defer slow.Stop()
	late := false
	var why error
	for {
		there, err := p.look(ctx)
		if len(p.namespaces) > 0 {
			if err != nil { // of others
				fmt.Fprintln(p.warn, "nvmeof:", err)
			}
			return nil
		}
		if !p.awaited() {
			return p.missing(there, err)
		}
		if why = cmp.Or(err, why); late && err != nil {
			fmt.Fprintf(p.warn, "nvmeof: %v; still waiting\n", err)
		}
		for waiting := true; waiting; {
			if err := p.states(); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-slow.C:
				late = true
				fmt.Fprintf(p.warn, "nvmeof: %v; still waiting\n", why)
			case <-p.news:
				waiting = false
			}
		}
	}
}

// awaited reports whether the target waits for what is wanted.
func (p *publisher) awaited() bool {
	away := p.subsystem.Waiting()
	return p.wanted == 0 && len(away) > 0 || slices.Contains(away, p.wanted)
}

// missing is why nothing is published, where nothing of that is waited for.
func (p *publisher) missing(there []connections.Namespace, err error) error {
	if err != nil && !errors.Is(err, host.ErrNotReady) {
		return err
	}
	ids := p.subsystem.Waiting()
	for _, n := range there {
		ids = append(ids, n.ID)
	}
	if len(ids) == 0 {
		return errors.New("the subsystem has no namespace")
	}
	slices.Sort(ids)
	return failure.Usagef("--namespace-id %d: there is no such namespace; there is: %s", p.wanted, failure.List(texts(ids)))
}

// states tells of controllers that are lost or are back. That none is left is the
// error.
func (p *publisher) states() error {
	if p.told == nil {
		p.told = slices.Repeat([]connections.Status{{State: connections.Live}}, len(p.controllers))
		for i, c := range p.controllers {
			p.told[i].ID = c.Status().ID
		}
	}
	p.welcome()
	var dead []error
	for i, c := range p.controllers {
		st := c.Status()
		if st.State == connections.Dead {
			dead = append(dead, fmt.Errorf("%s: %w", p.names[i], st.Err))
		}
		// Another identifier is another controller: it may be lost and back before that
		// could be told.
		if st.State == p.told[i].State && st.ID == p.told[i].ID {
			continue
		}
		p.told[i] = st
		line := fmt.Sprintf("nvmeof: %s: %s", p.names[i], st.State)
		if st.Err != nil {
			line += ": " + st.Err.Error()
		}
		fmt.Fprintln(p.warn, line)
	}
	if len(dead) == len(p.controllers) {
		return &failure.Connect{Err: errors.Join(dead...)}
	}
	return nil
}

// lookTime bounds how long namespaces are looked at.
const lookTime = 30 * time.Second

// look returns the namespaces that are there, and takes those that are wanted.
func (p *publisher) look(ctx context.Context) ([]connections.Namespace, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	there, err := p.subsystem.Namespaces(ctx)
	p.namespaces = slices.DeleteFunc(slices.Clone(there), func(n connections.Namespace) bool { return p.wanted != 0 && n.ID != p.wanted })
	return there, err
}

func (p *publisher) publish() error {
	var disks []attach.Disk
	for i := range p.namespaces {
		disks = append(disks, diskOf(&p.namespaces[i]))
	}
	return p.front.Publish(disks)
}

func diskOf(n *connections.Namespace) attach.Disk {
	info := n.Store.Info()
	return attach.Disk{
		Name:        fmt.Sprint(uint32(n.ID)),
		Description: fmt.Sprintf("namespace %d, %d bytes in blocks of %d, UUID %v", uint32(n.ID), info.Size, info.BlockSize, n.Identifiers.UUID),
		Store:       n.Store,
		NewMemory:   n.NewMemory,
	}
}

// tell prints what is published since it was called last, and what to type.
func (p *publisher) tell(w io.Writer) {
	printed := map[backend.Store]bool{}
	for i := range p.namespaces {
		d := diskOf(&p.namespaces[i])
		if printed[d.Store] = true; p.printed[d.Store] {
			continue
		}
		fmt.Fprintln(w, d.Description)
		for _, line := range p.front.Usage(d) {
			fmt.Fprintln(w, "   ", line)
		}
	}
	p.printed = printed
}

// leaveTime is how long controllers may take to make everything durable at the end.
const leaveTime = 5 * time.Second

// flush makes everything durable that the front end has acknowledged.
func (p *publisher) flush() error {
	live := func(c connections.Controller) bool { return c.Status().State == connections.Live }
	if !slices.ContainsFunc(p.controllers, live) {
		return nil // it is told of elsewhere
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	var errs []error
	for i := range p.namespaces {
		n := &p.namespaces[i]
		if info := n.Store.Info(); info.Volatile && !info.ReadOnly {
			errs = append(errs, n.Flush(ctx))
		}
	}
	return errors.Join(errs...)
}
