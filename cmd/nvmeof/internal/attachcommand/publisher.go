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

// A publisher keeps a front end's disks as the subsystem's namespaces are. It belongs
// to the command's goroutine.
type publisher struct {
	subsystem   connections.Subsystem
	controllers []connections.Controller
	names       []string           // of the controllers
	reported    []connections.News // of them
	front       *front
	wanted      capsule.NSID // 0: all
	warn        io.Writer
	news        chan struct{}
	namespaces  []connections.Namespace
	verbose     bool                   // what to type is printed for each
	printed     map[backend.Store]bool // those that were printed for the user; nil: none was ever
	lines       *connections.Lines     // that the target can cause

	left    sync.Once
	leftErr error

	mu   sync.Mutex // guards what follows
	late []latecomer
}

// changed reports that there may be something new. Any goroutine may call it.
func (p *publisher) changed() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// serve publishes what there is, and follows it. What is wanted and waits at the target is
// waited for.
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

// first looks until there is a namespace to publish, as long as one that is wanted waits at
// the target. After SilenceTime it says what is waited for.
func (p *publisher) first(ctx context.Context) error {
	slow := time.NewTimer(hosts.SilenceTime)
	defer slow.Stop()
	late := false
	var why error
	for {
		there, err := p.look(ctx)
		if len(p.namespaces) > 0 {
			if err != nil { // of others
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

// awaited reports whether the target waits for what is wanted.
func (p *publisher) awaited() bool {
	away := p.subsystem.Waiting()
	return p.wanted == 0 && len(away) > 0 || slices.Contains(away, p.wanted)
}

// missing is why nothing is published, where nothing of that is waited for.
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

// states reports controllers that are lost or are back. That none is left is the
// error.
func (p *publisher) states() error {
	if p.reported == nil {
		for _, c := range p.controllers {
			p.reported = append(p.reported, connections.NewsSince(connections.Status{State: connections.Live, ID: c.Status().ID}))
		}
	}
	p.welcome()
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
	var disks []nbd.Disk
	for i := range p.namespaces {
		disks = append(disks, diskOf(&p.namespaces[i]))
	}
	return p.front.Publish(disks)
}

// lowest is the first of the namespaces that are there, or for which the target waits.
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

// exportOf is the name under which a namespace is published.
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

// print prints, in a line each, what was published since the last call; and what to type for a
// disk, once, or for each. Of what comes too fast some is left out.
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

// leave ends the subsystem, once. The front end has ended before, or waits for requests that
// nobody answers, which end with the subsystem.
func (p *publisher) leave() error {
	p.left.Do(func() { p.leftErr = errors.Join(p.flush(), p.subsystem.Close()) })
	return p.leftErr
}

// flush makes everything durable that the front end has acknowledged.
func (p *publisher) flush() error { return connections.Flush(p.controllers, p.namespaces) }
