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

// A Gateway controls which ANA groups a target serves, if it is one of several that serve the same subsystems over
// shared storage. Each group belongs to one target at a time; the caller decides to which, and fences the previous
// owner. A target serves no group before Serve. A group that the target does not own is inaccessible through all
// listeners, or in transition while [Gateway.Drain] gives it back.
//
// The zero value is ready for use as [Config.Gateway] of one target.
type Gateway struct {
	// Directory lists the controllers of a host in a subsystem at the other targets, for Reservation Report. It
	// must not block, since shards call it. Default: reports name no controllers.
	Directory func(subsystem nvmeof.NQN, host capsule.HostID) []capsule.ControllerID

	// Generation is the minimum initial generation of the discovery log, so that it does not go back when a target
	// is restarted. Default: it begins with 1.
	Generation uint64

	target *Target
	early  time.Duration                 // see flushEarly; constant
	owned  atomic.Pointer[ana.States]    // read by shards when a store fails
	lease  atomic.Pointer[storage.Lease] // nil: no group has a lease
	behind atomic.Bool                   // see SetBehind
	// unflushed marks the groups that the target lost without a flush since it served them.
	unflushed [ana.MaxGroups + 1]atomic.Bool

	mu     sync.Mutex // serializes changes of ownership
	groups [ana.MaxGroups + 1]ownership
	fenced string // why the target serves nothing; empty: it is not fenced
}

// An ownership is the target's state of a group. It is protected by Gateway.mu.
type ownership struct {
	epoch    uint64 // the highest one in which it was served
	draining bool
	spoiled  bool     // stores were given back without a flush since it was served
	leaving  *leaving // what was given back and is still in use, or nil
}

// An OwnedGroup is an ANA group that a target serves.
type OwnedGroup struct {
	Group capsule.ANAGroup
	Epoch uint64
}

// bind assigns the gateway to a target.
func (g *Gateway) bind(t *Target) error {
	none := ana.All(capsule.ANAInaccessible)
	none[ana.Away] = capsule.ANAOptimized // the table of each listener has the state of this group
	if !g.owned.CompareAndSwap(nil, &none) {
		return errors.New("target: Config.Gateway belongs to another target: give each target its own")
	}
	g.target, g.early = t, earlyFlush
	t.generation = max(t.generation, g.Generation)
	return nil
}

// SetBehind sets whether the target may lack configuration that the targets share, such as one that has just been
// started. Meanwhile a Connect to something that the configuration lacks fails with Controller Busy, so that hosts
// retry: with Do Not Retry they would give up the path.
func (g *Gateway) SetBehind(behind bool) { g.behind.Store(behind) }

// Serve makes the target serve a group: commands for its namespaces are executed from now on. The previous owner
// has to be fenced, and the namespaces should exist (see [Subsystem.AddNamespace]); those that do not yet are in a
// group of their own, which is inaccessible. It is an error if the epoch is lower than an earlier one: then the
// caller's knowledge is outdated.
func (g *Gateway) Serve(group capsule.ANAGroup, epoch uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.group(group)
	switch {
	case err != nil:
		return err
	case g.fenced != "":
		return fmt.Errorf("ANA group %d: the target is fenced (%s) and serves nothing until Gateway.Rejoin", group, g.fenced)
	case o.draining:
		return fmt.Errorf("ANA group %d is being drained", group)
	case epoch < o.epoch:
		return fmt.Errorf("ANA group %d: epoch %d is outdated: the current one is %d", group, epoch, o.epoch)
	}
	o.epoch, o.spoiled = epoch, false
	g.unflushed[group].Store(false)
	g.set(capsule.ANAOptimized, fmt.Sprintf("is served by this target, epoch %d", epoch), group)
	return nil
}

// Stop ends the service of a group at once: new commands fail with ANA Inaccessible, which hosts retry on another
// path. So do the commands under way, those in a store as soon as the store has ended them. If a store takes
// longer than a second, the connections of its hosts are ended. Stores stay open: see [Gateway.Release].
func (g *Gateway) Stop(group capsule.ANAGroup) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := g.group(group); err != nil {
		return err
	}
	g.lose(group)
	g.set(capsule.ANAInaccessible, "is no longer served by this target", group)
	g.abort(func(of capsule.ANAGroup) bool { return of == group })
	return nil
}

// Fence stops all groups, since the target can no longer be sure of owning them. Nothing is served until Rejoin.
func (g *Gateway) Fence(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fenced = why
	g.lose(g.served()...)
	g.set(capsule.ANAInaccessible, "is no longer served by this target, which is fenced: "+why, g.served()...)
	g.abort(ana.Valid)
	g.target.log.Warn("the target serves nothing: it is fenced", zap.String("why", why))
}

// lose notes which of the groups are served and end without a flush. Called with mu held.
func (g *Gateway) lose(groups ...capsule.ANAGroup) {
	for _, group := range groups {
		if g.serves(group) {
			g.unflushed[group].Store(true)
		}
	}
}

// lost reports whether a group ended without a flush. Called by shards.
func (g *Gateway) lost(group capsule.ANAGroup) bool {
	return g == nil || !ana.Valid(group) || g.unflushed[group].Load()
}

// Rejoin lets groups be served again after Fence. Groups that the target had must be released first (see
// [Gateway.Release]), so that their stores are opened anew.
func (g *Gateway) Rejoin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fenced = ""
}

// Fenced returns why the target serves nothing, or an empty string if it is not fenced.
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

// served lists the groups that the target serves. Called with mu held.
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

// serves reports whether the target serves a group. A target without a Gateway serves all groups.
func (g *Gateway) serves(group capsule.ANAGroup) bool {
	return g == nil || g.owned.Load()[group] == capsule.ANAOptimized
}

var errNoTarget = errors.New("target: the Gateway does not belong to a target yet: see Config.Gateway")

func (g *Gateway) group(group capsule.ANAGroup) (*ownership, error) {
	switch {
	case g.target == nil:
		return nil, errNoTarget
	case !ana.Valid(group):
		return nil, fmt.Errorf("ANA group %d: want 1 to %d", group, ana.MaxGroups)
	}
	return &g.groups[group], nil
}

// set sets the state of groups, and notifies the hosts whose ANA log changes. Called with mu held.
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
		recordEvent(t, events.ANA, events.Info, events.Event{Text: fmt.Sprintf("ANA group %d %s", group, what)})
	}
	for _, s := range t.Subsystems() {
		regroupAway(s, g)
		ownershipChanged(s, append(changed, ana.Away))
	}
}

// regroupAway puts the namespaces that are away into their own groups while other targets serve those.
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

// ownershipChanged notifies the controllers whose hosts see namespaces of the groups.
func ownershipChanged(s *Subsystem, groups []capsule.ANAGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.controllers {
		if slices.ContainsFunc(groups, c.view.Sees) {
			c.do(func() { c.raise(capsule.EventANAChange) })
		}
	}
}
