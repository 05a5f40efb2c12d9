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
// inaccessible, and its namespaces as they were. A store that has failed for good is given back all the same,
// and whoever opens it next has to have it take no writes (see [backend.Failer]). A [DrainError] says what hung until ctx ended;
// the group is not served then, and what a Drain or Release repeats is what is left.
func (g *Gateway) Drain(ctx context.Context, group capsule.ANAGroup) error {
	return g.giveBack(ctx, group, true)
}

// Release is Drain of a group that the target serves no more, and may have lost: nothing is
// flushed, and commands under way fail. What hangs delays no other namespace: see [Gateway.Leaving].
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
	d := drain{gateway: g, group: group}
	if !whole {
		d.all = g.exported(group)
		return d.await(ctx, d.quiet(ctx, d.release))
	}
	if err := d.await(ctx, nil); err != nil { // of an earlier attempt
		return err
	}
	d.all = g.exported(group)
	if busy := d.quiet(ctx, func(*Namespace) {}); len(busy) > 0 {
		return d.hung(ctx, busy)
	}
	all, err := d.flush(ctx)
	if err != nil {
		return err
	}
	if all {
		g.noteFlushed(group)
	}
	for _, n := range d.all {
		d.release(n)
	}
	return d.await(ctx, nil)
}

// earlyFlush is how long stores have for the flush before commands are stopped.
const earlyFlush = time.Second

// flushEarly flushes while commands are still executed, so that less is left for the flush that
// hosts wait for. That one reports what is wrong.
func (g *Gateway) flushEarly(ctx context.Context, group capsule.ANAGroup) {
	ctx, cancel := context.WithTimeout(ctx, g.early)
	defer cancel()
	d := drain{gateway: g, group: group, all: g.exported(group)}
	_, _ = d.flush(ctx)
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

// noteFlushed notes that nothing of a group is lost any more, unless some of its stores were given back before,
// without a flush.
func (g *Gateway) noteFlushed(group capsule.ANAGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.groups[group].given {
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
	all     []*Namespace
	errs    []error // of volumes that were closed; under Gateway.mu
}

func (d *drain) has(n *storage.Namespace) bool { return n.Group() == d.group }

func (d *drain) hung(ctx context.Context, names []string) *DrainError {
	slices.Sort(names)
	return &DrainError{Group: d.group, Unfinished: slices.Compact(names), Err: context.Cause(ctx)}
}

// name is what a namespace exports.
func (n *Namespace) name() string { return n.ns.Volume.Name }

// quiet waits until no command is under way in the namespaces, and calls then with each when it has none.
// Commands that were held fail, as new ones do. It names the namespaces that have some when ctx ends.
func (d *drain) quiet(ctx context.Context, then func(*Namespace)) (busy []string) {
	left := make(map[*Namespace]struct{}, len(d.all))
	quiet := make(chan *Namespace, len(d.all)) // shards send, and do not wait
	for _, n := range d.all {
		n.subsystem.change.Lock()
		n.stopPause()
		n.subsystem.change.Unlock()
		left[n] = struct{}{}
		n.ns.Drain(func() { quiet <- n })
	}
	t := d.gateway.target
	again := time.NewTicker(t.fetchTimeout)
	defer again.Stop()
	for len(left) > 0 {
		select {
		case n := <-quiet:
			delete(left, n)
			then(n)
		case <-again.C:
			t.dropStalled(func(q *queue) bool { return q.holdsUp(d.has) })
		case <-ctx.Done():
			for range len(quiet) { // they do not hang
				n := <-quiet
				delete(left, n)
				then(n)
			}
			for n := range left {
				busy = append(busy, n.name())
			}
			return busy
		}
	}
	return nil
}

// drainFlushes is how many flushes a drain has under way: each may have a thread.
const drainFlushes = 16

// A flushed is the result of the flush of a volume.
type flushed struct {
	of  *storage.Volume
	err error
}

// flush makes durable what hosts wrote to the namespaces, and reports whether all of it is. What a store that has
// failed for good has not made durable it never will: that is no reason to keep the group, and whoever opens it next
// has to know.
func (d *drain) flush(ctx context.Context) (all bool, err error) {
	volumes := d.volatile()
	results := make(chan flushed, len(volumes))
	left := make(map[*storage.Volume]struct{})
	var errs []error
	all = true
	for next := 0; next < len(volumes) || len(left) > 0; {
		if next < len(volumes) && len(left) < drainFlushes {
			v := volumes[next]
			left[v] = struct{}{}
			if next++; !v.OnLane(func(l *storage.Lane) { new(flush).start(l, func(err error) { results <- flushed{v, err} }) }) {
				delete(left, v) // no device is left, nor a command of its hosts
			}
			continue
		}
		select {
		case r := <-results:
			delete(left, r.of)
			all = all && r.err == nil
			if r.err != nil && !givenUp(r.of) {
				errs = append(errs, fmt.Errorf("flush of %s: %w", r.of.Name, r.err))
			}
		case <-ctx.Done():
			var names []string
			for v := range left {
				names = append(names, v.Name)
			}
			return false, d.hung(ctx, names)
		}
	}
	return all, errors.Join(errs...)
}

// givenUp reports whether a store has failed for good. One that is another's by now has not: its content has
// not, and whoever has fenced it knows what to do.
func givenUp(v *storage.Volume) bool {
	why := v.Latched()
	return why != nil && !errors.Is(why, backend.ErrFenced)
}

// volatile are the volumes of the namespaces that have a cache to flush.
func (d *drain) volatile() (all []*storage.Volume) {
	for _, n := range d.all {
		if v := n.ns.Volume; v.Info.Volatile && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// vacate leaves in the place of a namespace one that is elsewhere and the same to hosts. It
// reports false if that was removed meanwhile.
func vacate(n *Namespace) bool {
	s := n.subsystem
	s.change.Lock()
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
