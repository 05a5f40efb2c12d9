package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A DrainError says which exports of a group were not drained before the context ended.
type DrainError struct {
	Group      capsule.ANAGroup
	Unfinished []string // names of the exports whose commands or flush did not end
	Err        error    // why Drain waited no longer
	// Ended is closed when the stores are free after all. It is nil if the target keeps some of them until the
	// group is drained again, or released.
	Ended <-chan struct{}
}

func (e *DrainError) Error() string {
	return fmt.Sprintf("ANA group %d is not drained: commands or a flush of %s did not complete: %v", e.Group, strings.Join(e.Unfinished, ", "), e.Err)
}

func (e *DrainError) Unwrap() error { return e.Err }

// Drain gives a group back: no new command begins, those under way end, and their data is flushed. When it
// returns, the stores are no longer in use, so that they can be closed and another target can serve the group.
// Hosts find the group in transition meanwhile, then inaccessible, and its namespaces unchanged.
//
// Each store can be closed when its own commands have ended and its flush has succeeded: one that hangs does not
// delay others, see [Gateway.Leaving]. A store that has failed permanently is given back too; when it is opened
// again, it must be made to refuse writes (see [backend.Failer]). If something hangs until ctx ends, the error is
// a [DrainError]; the group is not served then, and another Drain or Release continues with the rest.
func (g *Gateway) Drain(ctx context.Context, group capsule.ANAGroup) error {
	return g.giveBack(ctx, group, true)
}

// Release is Drain for a group that the target no longer serves, and may have lost: nothing is flushed, and
// commands under way fail.
func (g *Gateway) Release(ctx context.Context, group capsule.ANAGroup) error {
	return g.giveBack(ctx, group, false)
}

func (g *Gateway) giveBack(ctx context.Context, group capsule.ANAGroup, whole bool) error {
	if whole && g.Serves(group) {
		g.flushEarly(ctx, group)
	}
	if err := g.beginDrain(group, whole); err != nil {
		return err
	}
	defer g.endDrain(group)
	d := newDrain(g, group, whole)
	busy := d.finish(ctx)
	if whole && len(busy) == 0 && len(d.failed) == 0 {
		g.noteFlushed(group)
	}
	return errors.Join(append(d.failed, d.await(ctx, busy))...)
}

// earlyFlush limits the time of the flush before commands are stopped.
const earlyFlush = time.Second

// flushEarly flushes while commands are still executed, to shorten the flush that hosts wait for. That one reports
// errors.
func (g *Gateway) flushEarly(ctx context.Context, group capsule.ANAGroup) {
	ctx, cancel := context.WithTimeout(ctx, g.early)
	defer cancel()
	d := newDrain(g, group, true)
	for v := range d.volumes {
		if v.Info.Volatile {
			d.flushes.add(v)
		}
	}
	for len(d.flushes.begun) > 0 {
		select {
		case r := <-d.flushes.ended:
			d.flushes.end(r)
		case <-ctx.Done():
			return
		}
	}
}

func (g *Gateway) beginDrain(group capsule.ANAGroup, whole bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.group(group)
	switch {
	case err != nil:
		return err
	case o.draining:
		return fmt.Errorf("ANA group %d is being drained already", group)
	}
	o.draining = true
	g.lose(group) // reset if the flush succeeds
	if whole {
		g.set(capsule.ANAChange, "is being drained", group)
		return nil
	}
	g.set(capsule.ANAInaccessible, "is being released", group)
	g.abort(func(of capsule.ANAGroup) bool { return of == group })
	return nil
}

// noteFlushed notes that no data of a group can be lost any more, unless some of its stores were given back
// without a flush, by this drain or an earlier one.
func (g *Gateway) noteFlushed(group capsule.ANAGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.groups[group].spoiled {
		g.unflushed[group].Store(false)
	}
}

func (g *Gateway) endDrain(group capsule.ANAGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[group].draining = false
	g.set(capsule.ANAInaccessible, "is no longer served by this target", group)
}

// exported returns the namespaces of a group whose stores the target has.
func (g *Gateway) exported(group capsule.ANAGroup) (all []*Namespace) {
	for _, s := range g.target.Subsystems() {
		for _, n := range s.Namespaces() {
			if n.Group() == group {
				all = append(all, n)
			}
		}
	}
	return all
}

// A drain is the state of one Drain or Release.
type drain struct {
	gateway *Gateway
	group   capsule.ANAGroup
	whole   bool                    // data that was written is flushed
	pending map[*Namespace]struct{} // not given back yet
	volumes map[*storage.Volume]*portion
	flushes *volumeFlushes
	failed  []error // of flushes; the namespaces concerned are not given back
	errs    []error // of volumes that were closed; under Gateway.mu
}

// A portion is the namespaces of a group that have the same volume.
type portion struct {
	namespaces []*Namespace
	busy       int // number of namespaces with commands under way
}

func newDrain(g *Gateway, group capsule.ANAGroup, whole bool) *drain {
	d := &drain{gateway: g, group: group, whole: whole, pending: make(map[*Namespace]struct{}), volumes: make(map[*storage.Volume]*portion)}
	for _, n := range g.exported(group) {
		d.pending[n] = struct{}{}
		p := d.volumes[n.ns.Volume]
		if p == nil {
			p = new(portion)
			d.volumes[n.ns.Volume] = p
		}
		p.namespaces = append(p.namespaces, n)
		p.busy++
	}
	d.flushes = newVolumeFlushes(len(d.volumes))
	return d
}

func (d *drain) has(n *storage.Namespace) bool { return n.Group() == d.group }

func (d *drain) hung(ctx context.Context, names []string) *DrainError {
	slices.Sort(names)
	return &DrainError{Group: d.group, Unfinished: slices.Compact(names), Err: context.Cause(ctx)}
}

// name returns the name of the namespace's export.
func (n *Namespace) name() string { return n.ns.Volume.Name }

// finish gives each namespace back once no command is under way in it and its volume is flushed. Held commands
// fail, as new ones do. If ctx ends first, it returns the names of the namespaces that remain.
func (d *drain) finish(ctx context.Context) (busy []string) {
	quiet := d.quiet()
	t := d.gateway.target
	again, slow := time.NewTicker(t.fetchTimeout), time.NewTicker(slowFlush)
	defer again.Stop()
	defer slow.Stop()
	for len(d.pending) > 0 {
		select {
		case n := <-quiet:
			d.ended(n)
		case r := <-d.flushes.ended:
			d.flushed(r)
		case <-slow.C:
			d.flushes.next()
		case <-again.C:
			t.dropStalled(func(q *queue) bool { return q.holdsUp(d.has) })
		case <-ctx.Done():
			for range len(quiet) { // these are ready
				d.ended(<-quiet)
			}
			for range len(d.flushes.ended) {
				d.flushed(<-d.flushes.ended)
			}
			for n := range d.pending {
				busy = append(busy, n.name())
			}
			return busy
		}
	}
	return nil
}

// quiet returns a channel that receives each namespace when no command is under way in it any more.
func (d *drain) quiet() <-chan *Namespace {
	quiet := make(chan *Namespace, len(d.pending)) // shards send to it and must not block
	for n := range d.pending {
		n.subsystem.change.LockAt(0)
		n.stopPause()
		n.subsystem.change.Unlock()
		n.ns.Drain(func() { quiet <- n })
	}
	return quiet
}

// ended handles a namespace in which no command is under way any more: it is given back, or its volume is flushed
// first, once no namespace of the portion has commands.
func (d *drain) ended(n *Namespace) {
	p := d.volumes[n.ns.Volume]
	p.busy--
	switch {
	case !d.whole:
		d.release(n, false)
	case !n.ns.Volume.Info.Volatile:
		d.release(n, true)
	case p.busy == 0:
		d.flushes.add(n.ns.Volume)
	}
}

// flushed gives back the namespaces of a volume that was flushed. A store that has failed permanently is given
// back too, since another flush would not make its data durable; its next user has to know that.
func (d *drain) flushed(r flushed) {
	d.flushes.end(r)
	failed := r.err != nil && !givenUp(r.of)
	if failed {
		d.failed = append(d.failed, fmt.Errorf("flush of %s: %w", r.of.Name, r.err))
	}
	for _, n := range d.volumes[r.of].namespaces {
		if failed {
			delete(d.pending, n)
		} else {
			d.release(n, r.err == nil && !r.undone)
		}
	}
}

// givenUp reports whether a store has failed permanently. A store that another target has taken over by fencing
// this one has not: its content is intact.
func givenUp(v *storage.Volume) bool {
	why := v.Latched()
	return why != nil && !errors.Is(why, backend.ErrFenced)
}

// vacate replaces a namespace by one that is served elsewhere and is the same to hosts. It returns false if the
// namespace was removed meanwhile.
func vacate(n *Namespace) bool {
	s := n.subsystem
	s.change.LockAt(0)
	defer s.change.Unlock()
	if s.exported(n.ns.ID) != n {
		return false
	}
	shape, _ := n.ns.Shape()
	left := &Namespace{subsystem: s, ns: storage.NewNamespace(n.ns.Identity, n.ns.Group(), n.ns.ReadOnly())}
	left.ns.Known = &shape
	left.ns.Protect(n.ns.Protection())
	left.ns.SetReservable(n.ns.Reservable())
	left.ns.Remember(*n.ns.Volume.Reservations.State())
	s.succeed(left.ns)
	left.ns.SetElsewhere(true)
	s.depart(n.ns)
	s.replace(n.ns.ID, left)
	n.removed = true
	n.stopPause()
	s.moved(n.ns, left.ns)
	return true
}
