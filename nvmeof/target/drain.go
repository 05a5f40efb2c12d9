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

// A DrainError says what of a group did not end before the context did.
type DrainError struct {
	Group      capsule.ANAGroup
	Unfinished []string // what is exported, whose commands, or whose flush, did not end
	Err        error    // why it was waited for no longer
	// Ended is closed when the stores are free after all; nil: the target has some of them until the
	// group is drained again, or released.
	Ended <-chan struct{}
}

func (e *DrainError) Error() string {
	return fmt.Sprintf("ANA group %d is not drained: %s: commands, or a flush, did not end: %v", e.Group, strings.Join(e.Unfinished, ", "), e.Err)
}

func (e *DrainError) Unwrap() error { return e.Err }

// Drain gives a group back: no command begins any more, those under way end, what they wrote is
// flushed, and the stores are not used any more when it returns, so that they can be closed, and
// another target can serve the group. Hosts find the group in transition meanwhile, then
// inaccessible, and its namespaces as they were. Each store can be closed when its own commands have ended and
// its flush has succeeded: what hangs delays no other, see [Gateway.Leaving]. A store that has failed for good is given back all the same,
// and whoever opens it next has to have it take no writes (see [backend.Failer]). A [DrainError] says what hung until ctx ended;
// the group is not served then, and what a Drain or Release repeats is what is left.
func (g *Gateway) Drain(ctx context.Context, group capsule.ANAGroup) error {
	return g.giveBack(ctx, group, true)
}

// Release is Drain of a group that the target serves no more, and may have lost: nothing is
// flushed, and commands under way fail.
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

// earlyFlush is how long stores have for the flush before commands are stopped.
const earlyFlush = time.Second

// flushEarly flushes while commands are still executed, so that less is left for the flush that
// hosts wait for. That one reports what is wrong.
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
	g.lose(group) // unless the flush succeeds
	if whole {
		g.set(capsule.ANAChange, "is being given back", group)
		return nil
	}
	g.set(capsule.ANAInaccessible, "is being released", group)
	g.abort(func(of capsule.ANAGroup) bool { return of == group })
	return nil
}

// noteFlushed notes that nothing of a group is lost any more, unless some of its stores were given back without a
// flush, by this drain or before.
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
	g.set(capsule.ANAInaccessible, "is not served by this target any more", group)
}

// exported are the namespaces of a group whose stores the target has.
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

// A drain is one of a group under way.
type drain struct {
	gateway *Gateway
	group   capsule.ANAGroup
	whole   bool                    // what was written is flushed
	pending map[*Namespace]struct{} // not given back
	volumes map[*storage.Volume]*portion
	flushes *volumeFlushes
	failed  []error // of flushes: those namespaces are not given back
	errs    []error // of volumes that were closed; under Gateway.mu
}

// A portion is what of a volume belongs to a group.
type portion struct {
	namespaces []*Namespace
	busy       int // namespaces in which commands are under way
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

// name is what a namespace exports.
func (n *Namespace) name() string { return n.ns.Volume.Name }

// finish gives each namespace back once no command is under way in it, and its volume is flushed. Commands that
// were held fail, as new ones do. It names the namespaces of which that has not happened when ctx ends.
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
			for range len(quiet) { // they do not hang
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

// quiet sends each namespace when no command is under way in it.
func (d *drain) quiet() <-chan *Namespace {
	quiet := make(chan *Namespace, len(d.pending)) // shards send, and do not wait
	for n := range d.pending {
		n.subsystem.change.LockAt(0)
		n.stopPause()
		n.subsystem.change.Unlock()
		n.ns.Drain(func() { quiet <- n })
	}
	return quiet
}

// ended gives a namespace back in which no command is under way any more, or flushes its volume first, when that
// holds for all that the group has of it.
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

// flushed gives back what the group has of a volume that was flushed. What a store that has failed for good has not
// made durable it never will: that is no reason to keep it, and whoever opens it next has to know.
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

// givenUp reports whether a store has failed for good. One that is another's by now has not: its content has
// not, and whoever has fenced it knows what to do.
func givenUp(v *storage.Volume) bool {
	why := v.Latched()
	return why != nil && !errors.Is(why, backend.ErrFenced)
}

// vacate leaves in the place of a namespace one that is elsewhere and the same to hosts. It
// reports false if that was removed meanwhile.
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
