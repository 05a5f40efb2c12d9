package attachcommand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/connections"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/failure"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/hosts"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/nvmeverb"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// A publisher keeps a front end's disks in step with the subsystem's namespaces. It is used by the command's
// goroutine.
type publisher struct {
	subsystem   connections.Subsystem
	controllers []connections.Controller
	names       []string           // of the controllers
	reported    []connections.News // of the controllers
	front       *front
	wanted      capsule.NSID // 0: all
	warn        io.Writer
	news        chan struct{}
	namespaces  []connections.Namespace
	verbose     bool                   // print what to type for each disk
	printed     map[backend.Store]bool // those printed for the user; nil: none yet
	lines       *connections.Lines     // lines that the target can cause

	left    sync.Once
	leftErr error

	mu   sync.Mutex // guards the fields below
	late []latePath
}

// changed signals that something may be new. It may be called from any goroutine.
func (p *publisher) changed() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// serve publishes the namespaces and follows their changes. It waits for wanted ones whose store the target waits for.
func (p *publisher) serve(ctx context.Context, out io.Writer) error {
	defer p.lines.Report()
	if err := p.first(ctx); err != nil {
		return err
	}
	p.front.cfg.Default = exportOf(p.lowest())
	p.front.cfg.Overdue = func() { _ = p.leave() }
	if err := p.publish(); err != nil {
		return err
	}
	for {
		p.print(out)
		if err := p.states(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.news:
		}
		if _, err := p.look(ctx); err != nil && ctx.Err() == nil {
			p.lines.Say(err.Error())
		}
		if err := p.publish(); err != nil {
			p.lines.Say(err.Error())
		}
	}
}

// first looks until there is a namespace to publish, as long as the target waits for the store of a wanted one. After
// SilenceTime it prints what it waits for.
func (p *publisher) first(ctx context.Context) error {
	slow := time.NewTimer(hosts.SilenceTime)
	defer slow.Stop()
	late := false
	var why error
	for {
		there, err := p.look(ctx)
		if len(p.namespaces) > 0 {
			if err != nil { // about other namespaces
				p.lines.Say(err.Error())
			}
			return nil
		}
		if !p.awaited() {
			return p.missing(there, err)
		}
		if why = cmp.Or(err, why); late && err != nil {
			p.lines.Say(fmt.Sprintf("%v; still waiting", err))
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

// awaited reports whether the target waits for the store of a wanted namespace.
func (p *publisher) awaited() bool {
	away := p.subsystem.Waiting()
	return p.wanted == 0 && len(away) > 0 || slices.Contains(away, p.wanted)
}

// missing returns the reason why nothing is published, for a target that waits for no store of a wanted namespace.
func (p *publisher) missing(there []connections.Namespace, err error) error {
	if err != nil && !errors.Is(err, host.ErrNotReady) && !errors.As(err, new(*connections.LeftOutError)) {
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
	return failure.Usagef("--namespace-id %d: no such namespace; the subsystem has: %s", p.wanted, failure.List(nvmeverb.Texts(ids)))
}

// states reports controllers that were lost or reconnected. It returns an error if none is left.
func (p *publisher) states() error {
	if p.reported == nil {
		for _, c := range p.controllers {
			p.reported = append(p.reported, connections.NewsSince(connections.Status{State: connections.Live, ID: c.Status().ID}))
		}
	}
	p.addPaths()
	var dead []error
	for i, c := range p.controllers {
		st := c.Status()
		if st.State == connections.Dead {
			dead = append(dead, fmt.Errorf("%s: %w", p.names[i], st.Err))
		}
		if line := p.reported[i].Line(p.names[i], st); line != "" {
			p.lines.Say(line)
		}
	}
	if len(dead) == len(p.controllers) {
		return &failure.Connect{Err: errors.Join(dead...)}
	}
	return nil
}

// lookTime limits how long listing the namespaces may take.
const lookTime = 30 * time.Second

// look returns the namespaces of the subsystem, and stores the wanted ones.
func (p *publisher) look(ctx context.Context) ([]connections.Namespace, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	there, err := p.subsystem.Namespaces(ctx)
	p.namespaces = slices.DeleteFunc(slices.Clone(there), func(n connections.Namespace) bool { return p.wanted != 0 && n.ID != p.wanted })
	return there, err
}

func (p *publisher) publish() error {
	var disks []nbd.Disk
	for i := range p.namespaces {
		disks = append(disks, diskOf(&p.namespaces[i]))
	}
	return p.front.Publish(disks)
}

// lowest returns the first namespace that exists, or whose store the target waits for.
func (p *publisher) lowest() capsule.NSID {
	if p.wanted != 0 {
		return p.wanted
	}
	ids := p.subsystem.Waiting()
	for _, n := range p.namespaces {
		ids = append(ids, n.ID)
	}
	return slices.Min(ids)
}

// exportOf returns the name under which a namespace is published.
func exportOf(id capsule.NSID) string { return fmt.Sprint(uint32(id)) }

func diskOf(n *connections.Namespace) nbd.Disk {
	info, alias := n.Store.Info(), ""
	if id := n.Identifiers.UUID; id != [16]byte{} {
		alias = id.String()
	}
	return nbd.Disk{
		Name: exportOf(n.ID), Alias: alias,
		Description: fmt.Sprintf("namespace %d, %d bytes in blocks of %d, UUID %v", uint32(n.ID), info.Size, info.BlockSize, n.Identifiers.UUID),
		Store:       n.Store,
		NewMemory:   n.NewMemory,
	}
}

// print prints one line for each disk published since the last call, and what to type for a disk: once, or for each if
// verbose. Some lines are left out if there are too many.
func (p *publisher) print(w io.Writer) {
	printed := map[backend.Store]bool{}
	var usage []string
	for i := range p.namespaces {
		d := diskOf(&p.namespaces[i])
		if printed[d.Store] = true; p.printed[d.Store] || !p.lines.Allow() {
			continue
		}
		fmt.Fprintf(w, "%s: %s\n", d.Description, p.front.URI(d))
		if p.verbose || p.printed == nil && usage == nil {
			usage = append(usage, p.front.Usage(d)...)
		}
	}
	for _, line := range usage {
		fmt.Fprintln(w, "   ", line)
	}
	p.printed = printed
}

// leave closes the subsystem, once. The front end has been closed before, or waits for requests that nobody answers,
// which end with the subsystem.
func (p *publisher) leave() error {
	p.left.Do(func() { p.leftErr = errors.Join(p.flush(), p.subsystem.Close()) })
	return p.leftErr
}

// flush makes everything durable that the front end has acknowledged.
func (p *publisher) flush() error { return connections.Flush(p.controllers, p.namespaces) }
