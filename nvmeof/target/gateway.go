package target

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
)

// A Gateway says what one target may do of several that serve the same subsystems over
// storage that they share. Each ANA group belongs to one of them at a time; who decides that,
// and fences the earlier owner, calls these methods. A target serves no group before Serve.
// Through all listeners a group that it does not own is inaccessible, or in transition while
// [Gateway.Drain] gives it back.
//
// The zero value is ready for [Config.Gateway], of one target.
type Gateway struct {
	// Directory lists the controllers of a host in a subsystem at the other targets, for
	// Reservation Report. Shards call it, so it does not wait for anything. Default: reports
	// name no controllers.
	Directory func(subsystem nvmeof.NQN, host capsule.HostID) []capsule.ControllerID

	// Generation is that of the discovery log at the beginning, at least, so that it does not
	// go back when a target is started again. Default: it begins with 1.
	Generation uint64

	target *Target
	early  time.Duration                 // see flushEarly; constant
	owned  atomic.Pointer[ana.States]    // read by shards where a store fails
	lease  atomic.Pointer[storage.Lease] // nil: no group has one
	behind atomic.Bool                   // see SetBehind
	// unflushed are the groups that the target has lost since it served them, without a flush.
	unflushed [ana.MaxGroups + 1]atomic.Bool

	mu     sync.Mutex // serialises changes of ownership
	groups [ana.MaxGroups + 1]ownership
	fenced string // why the target serves nothing; empty: it may
}

// An ownership is what the target knows of a group. It belongs to Gateway.mu.
type ownership struct {
	epoch    uint64 // the highest one that it was served in
	draining bool
	spoiled  bool     // stores were given back without a flush since it was served
	leaving  *leaving // what was given back and is still used; nil: nothing
}

// An OwnedGroup is a group that a target serves.
type OwnedGroup struct {
	Group capsule.ANAGroup
	Epoch uint64
}

// bind makes it the target's.
func (g *Gateway) bind(t *Target) error {
	none := ana.All(capsule.ANAInaccessible)
	none[ana.Away] = capsule.ANAOptimized // the table of each listener says what it is
	if !g.owned.CompareAndSwap(nil, &none) {
		return errors.New("target: Config.Gateway is another target's: give each its own")
	}
	g.target, g.early = t, earlyFlush
	t.generation = max(t.generation, g.Generation)
	return nil
}

// SetBehind says whether the target may lack something that the targets share, as one does that has just
// been started. Meanwhile a Connect to what an administrator has not given the target fails with Controller
// Busy, so that hosts which connect again come back: with Do Not Retry they would give up the path.
func (g *Gateway) SetBehind(behind bool) { g.behind.Store(behind) }

// Serve makes the groups of an epoch the target's: commands for its namespaces are executed
// from now on. The earlier owner has to be fenced, and the namespaces should be there (see
// [Subsystem.AddNamespace]): those that are not yet are in a group of their own, which is
// inaccessible. An epoch lower than one before is an error: the caller is late.
func (g *Gateway) Serve(group capsule.ANAGroup, epoch uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.group(group)
	switch {
	case err != nil:
		return err
	case g.fenced != "":
		return fmt.Errorf("ANA group %d: the target is fenced (%s) and serves nothing before Gateway.Rejoin", group, g.fenced)
	case o.draining:
		return fmt.Errorf("ANA group %d is being drained", group)
	case epoch < o.epoch:
		return fmt.Errorf("ANA group %d: epoch %d is over: it is %d", group, epoch, o.epoch)
	}
	o.epoch, o.spoiled = epoch, false
	g.unflushed[group].Store(false)
	g.set(capsule.ANAOptimized, fmt.Sprintf("is served by this target, epoch %d", epoch), group)
	return nil
}

// Stop ends the service of a group at once: new commands fail with ANA Inaccessible, which
// hosts retry on another path, and so do those under way, when their store has ended them if
// that has them. A store that takes longer than a second costs its hosts the connection.
// Stores stay open: see [Gateway.Release].
func (g *Gateway) Stop(group capsule.ANAGroup) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := g.group(group); err != nil {
		return err
	}
	g.lose(group)
	g.set(capsule.ANAInaccessible, "is not served by this target any more", group)
	g.abort(func(of capsule.ANAGroup) bool { return of == group })
	return nil
}

// Fence is Stop of all groups, since the target does not know any more what belongs to it.
// Until Rejoin nothing is served.
func (g *Gateway) Fence(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fenced = why
	g.lose(g.served()...)
	g.set(capsule.ANAInaccessible, "is not served by this target any more: it is fenced: "+why, g.served()...)
	g.abort(ana.Valid)
	g.target.log.Warn("the target serves nothing: it is fenced", zap.String("why", why))
}

// lose notes that groups end without a flush, if the target serves them. Called with mu held.
func (g *Gateway) lose(groups ...capsule.ANAGroup) {
	for _, group := range groups {
		if g.serves(group) {
			g.unflushed[group].Store(true)
		}
	}
}

// lost reports whether a group ended without a flush. Shards call it.
func (g *Gateway) lost(group capsule.ANAGroup) bool {
	return g == nil || !ana.Valid(group) || g.unflushed[group].Load()
}

// Rejoin lets groups be served again after Fence. Those that the target had have to be
// released before (see [Gateway.Release]), so that their stores are opened again.
func (g *Gateway) Rejoin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fenced = ""
}

// Fenced is why the target serves nothing; empty: it may.
func (g *Gateway) Fenced() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fenced
}

// Owned lists the groups that the target serves, ascending.
func (g *Gateway) Owned() (all []OwnedGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, group := range g.served() {
		all = append(all, OwnedGroup{group, g.groups[group].epoch})
	}
	return all
}

// served are the groups that the target serves. Called with mu held.
func (g *Gateway) served() (all []capsule.ANAGroup) {
	for group := capsule.ANAGroup(1); ana.Valid(group); group++ {
		if g.serves(group) {
			all = append(all, group)
		}
	}
	return all
}

// Serves reports whether the target serves a group.
func (g *Gateway) Serves(group capsule.ANAGroup) bool {
	return ana.Valid(group) && g.owned.Load() != nil && g.serves(group)
}

// serves reports whether the target serves a group. One without a Gateway serves all.
func (g *Gateway) serves(group capsule.ANAGroup) bool {
	return g == nil || g.owned.Load()[group] == capsule.ANAOptimized
}

var errNoTarget = errors.New("target: the Gateway is no target's yet: see Config.Gateway")

func (g *Gateway) group(group capsule.ANAGroup) (*ownership, error) {
	switch {
	case g.target == nil:
		return nil, errNoTarget
	case !ana.Valid(group):
		return nil, fmt.Errorf("ANA group %d: 1 to %d", group, ana.MaxGroups)
	}
	return &g.groups[group], nil
}

// set makes it the state of groups, and tells the hosts whose log changes. Called with mu held.
func (g *Gateway) set(state capsule.ANAState, what string, groups ...capsule.ANAGroup) {
	before := g.owned.Load()
	next := *before
	var changed []capsule.ANAGroup
	for _, group := range groups {
		if next[group] != state {
			next[group] = state
			changed = append(changed, group)
		}
	}
	if len(changed) == 0 {
		return
	}
	t := g.target
	g.owned.Store(&next)
	t.mu.Lock()
	listeners := t.listeners
	t.mu.Unlock()
	for _, l := range listeners {
		l.adoptOwned(&next)
	}
	for _, group := range changed {
		t.causes.Count(meter.ANAChanges, "", label(state.String()), strconv.FormatUint(uint64(group), 10))
		t.log.Info("ANA group "+what, zap.Uint32("group", uint32(group)), zap.Stringer("state", state))
		happened(t, events.ANA, events.Info, events.Event{Text: fmt.Sprintf("ANA group %d %s", group, what)})
	}
	for _, s := range t.Subsystems() {
		regroupAway(s, g)
		ownershipChanged(s, append(changed, ana.Away))
	}
}

// regroupAway shows the namespaces that are away in their groups while others serve those.
func regroupAway(s *Subsystem, g *Gateway) {
	for n := range s.table().Listed {
		if n.Away() && n.SetElsewhere(!g.serves(n.Group())) {
			s.regrouped(n.Group())
			s.regrouped(ana.Away)
		}
	}
}

// adoptOwned gives a listener the states that the target's ownership allows.
func (l *Listener) adoptOwned(owned *ana.States) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ana.Store(l.ana.Load().Owned(owned))
}

// ownershipChanged notifies the controllers whose host sees namespaces of groups.
func ownershipChanged(s *Subsystem, groups []capsule.ANAGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if slices.ContainsFunc(groups, c.view.Sees) {
			c.do(func() { c.raise(capsule.EventANAChange) })
		}
	}
}
