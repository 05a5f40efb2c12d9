package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/boottime"
	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/revision"
	"github.com/nvmeof-go/nvmeof/internal/group/runner"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// alarmTime is how long an alarm stays in the status after it was last raised.
const alarmTime = 90 * time.Second

// alarm notes an alarm, and logs it if it is new.
func (g *Gateway) alarm(a group.Alarm) {
	g.mu.Lock()
	g.forgetAlarms()
	_, known := g.alarms[a]
	g.alarms[a] = time.Now()
	g.mu.Unlock()
	if a.Kind == group.AlarmRefused {
		g.counts.mu.Lock()
		g.counts.refused++
		g.counts.mu.Unlock()
	}
	if known {
		return
	}
	g.cfg.Log.Warn("group", zap.String("alarm", string(a.Kind)), zap.String("gateway", a.Gateway), zap.Uint16("group", uint16(a.Group)), zap.String("why", a.Text))
	if g.cfg.Alarm != nil {
		g.cfg.Alarm(a)
	}
}

// Status implements [control.Gateways].
func (g *Gateway) Status() control.GroupStatus {
	out := control.GroupStatus{Gateway: g.name, Gateways: []control.Member{}, Groups: []control.ANAStatus{}, Fences: []control.FenceStatus{}, Alarms: []control.GroupAlarm{}}
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	run := g.run.Load()
	if run == nil {
		return out
	}
	s, err := run.Status(ctx)
	if err != nil {
		return out
	}
	out.Age = int((boottime.Now() - s.Read).Milliseconds())
	owns := map[string]int{}
	for _, x := range s.Groups {
		if x.Owner.Phase == group.Owned {
			owns[x.Owner.Owner]++
		}
		a := control.ANAStatus{Group: int(x.Group.ID), Epoch: x.Owner.Epoch, Served: x.Served, Fence: config.FenceStorage}
		if x.Group.Backend == group.Lease {
			a.Fence = config.FenceLease
		}
		if x.Owner.Phase == group.Owned {
			a.Owner = x.Owner.Owner
		}
		if x.Moving {
			a.Moving = cmp.Or(x.To, "any other")
		}
		out.Groups = append(out.Groups, a)
	}
	for _, x := range s.Gateways {
		first, last := group.ControllerIDs(x.Member.Slot, 0)
		out.Gateways = append(out.Gateways, control.Member{Name: x.Member.Name, Incarnation: string(x.Member.Incarnation), State: stateOf(&x),
			Addresses: x.Member.Addresses, Storage: x.Member.Storage, Groups: owns[x.Member.Name], FirstID: int(first), LastID: int(last)})
	}
	for _, f := range s.Fences {
		out.Fences = append(out.Fences, control.FenceStatus{Gateway: f.Name, Incarnation: string(f.Incarnation), Storage: f.Storage, Done: f.Done})
	}
	out.Alarms = g.alarmed()
	return out
}

// alarmed returns the current alarms.
func (g *Gateway) alarmed() []control.GroupAlarm {
	out := []control.GroupAlarm{}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgetAlarms()
	for a := range g.alarms {
		out = append(out, control.GroupAlarm{Kind: string(a.Kind), Gateway: a.Gateway, Group: int(a.Group), Text: a.Text})
	}
	slices.SortFunc(out, func(a, b control.GroupAlarm) int { return cmp.Compare(a.Text, b.Text) })
	return out
}

// states are the values that stateOf returns.
var states = [...]string{"alive", "starting", "drained", "leaving", "sick", "silent", "unknown", "ended"}

// forgetAlarms removes alarms that were not repeated; one that is raised again later is new. Called with mu
// held.
func (g *Gateway) forgetAlarms() {
	for a, at := range g.alarms {
		if time.Since(at) > alarmTime {
			delete(g.alarms, a)
		}
	}
}

// stateOf returns the state of a gateway, in a word.
func stateOf(x *group.GatewayStatus) string {
	switch {
	case x.Member.Ended:
		return "ended"
	case x.Unknown:
		return "unknown"
	case !x.Alive:
		return "silent"
	case x.Member.Leaving:
		return "leaving"
	case x.Beat.Starting:
		return "starting"
	case x.Beat.Sick:
		return "sick"
	case x.Drained:
		return "drained"
	}
	return "alive"
}

// Order implements [control.Gateways].
func (g *Gateway) Order(ctx context.Context, o control.Order) error {
	kinds := map[control.OrderKind]group.CommandKind{
		control.DrainGateway: group.DrainGateway, control.ResumeGateway: group.UndrainGateway, control.RemoveGateway: group.RemoveGateway,
		control.FailGateway: group.FailGateway, control.MoveGroup: group.MoveGroup,
	}
	if o.Kind == control.MoveGroup && (o.Group < 1 || o.Group > int(group.MaxID)) {
		return fmt.Errorf("ANA group %d: want 1 to %d", o.Group, group.MaxID)
	}
	run := g.run.Load()
	if run == nil {
		return runner.ErrClosed
	}
	within, cancel := context.WithTimeout(ctx, g.cfg.OrderTime)
	defer cancel()
	var said []state.Entry
	if o.Kind == control.RemoveGateway {
		said, _ = writtenBy(within, g.store, o.Gateway) // if the store does not answer, the order is not carried out either
	}
	err := run.Command(within, group.Command{Kind: kinds[o.Kind], Gateway: o.Gateway, Group: group.ID(o.Group)})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return &control.OrderError{Err: fmt.Errorf("for %v this gateway was not registered in the group, or the group's store did not answer (its log has the reason): the order may not have been given; see nvmeof gateway list", g.cfg.OrderTime)}
	}
	if err == nil {
		forget(within, g.store, said)
	}
	return err
}

// changed handles a change of the group's status.
func (g *Gateway) changed(s group.Status) {
	g.lookAtPeers(s)
	g.stuck.Store(anyStuck(&s, g.name))
	g.sizes.hear(heardOf(&s))
	next := map[string]string{}
	for i := range s.Gateways {
		next[s.Gateways[i].Member.Name] = stateOf(&s.Gateways[i])
		if s.Gateways[i].Member.Name == g.name {
			g.images.registered(s.Gateways[i].Member.Storage)
		}
	}
	g.preopenMoving(s)
	g.mu.Lock()
	before := g.states
	maps.DeleteFunc(next, func(name, state string) bool {
		return before[name] == "" && (state == "silent" || state == "unknown") // no heartbeat of it was seen yet: it may be alive
	})
	g.states = next // which is constant from here on
	var unfenced []int
	for _, x := range s.Groups {
		if id := int(x.Group.ID); x.Group.Backend == group.Lease && !g.logged[id] {
			g.logged[id] = true
			unfenced = append(unfenced, id)
		}
	}
	g.mu.Unlock()
	if !maps.Equal(before, next) {
		g.listed.outdated()
	}
	if len(unfenced) > 0 {
		g.cfg.Log.Warn("ANA groups without a fence (fence: lease): a gateway that was suspended may still write after another one has taken over", zap.Ints("groups", unfenced))
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		if state := next[name]; before[name] != state && name != g.name {
			g.cfg.Log.Info("another gateway of the group changed its state", zap.String("gateway", name), zap.String("state", state))
			if g.cfg.Joined != nil {
				g.cfg.Joined(name, state)
			}
		}
	}
}

// portsOf is the number of ports of a gateway that have a port ID in the discovery logs of others.
const portsOf = 1000

// lookAtPeers gives the target the listeners of the other gateways.
func (g *Gateway) lookAtPeers(s group.Status) {
	var peers []target.Peer
	for _, x := range s.Gateways {
		if x.Member.Name == g.name || x.Member.Ended {
			continue
		}
		for i, text := range x.Member.Addresses {
			if a, err := netip.ParseAddrPort(text); err == nil && i < portsOf {
				peers = append(peers, target.Peer{Port: target.PortID(x.Member.Slot*portsOf + i + 1), Addr: a})
			}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listPeers(s.Listing, peers)
}

// listPeers puts the listeners of the other gateways into the discovery log. Called with mu held.
func (g *Gateway) listPeers(listing state.Revision, peers []target.Peer) {
	same := func(a, b target.Peer) bool { return a.Port == b.Port && a.Addr == b.Addr }
	next := generation(listing, g.counts.applied.Load())
	if slices.EqualFunc(peers, g.peers, same) && next <= g.generation {
		return
	}
	if err := g.owned.SetPeers(peers, next); err != nil {
		g.cfg.Log.Error("cannot add the listeners of the other gateways to the discovery log", zap.Error(err))
		return
	}
	g.peers, g.listing, g.generation = peers, listing, max(next, g.generation)
}

// generation returns the generation of the discovery log (NVM Express over Fabrics 1.1, 5.4) for a revision of
// the listing of gateways and one of the group's configuration. It is derived from the store, so that
// it is the same at all gateways and does not go back when one is started again. The low 16 bits are
// for changes that a gateway counts itself, for example of its own listeners.
func generation(listing state.Revision, configuration int64) uint64 {
	return (uint64(listing) + uint64(configuration)) << 16
}

// present returns the current generation of the discovery log, 0 if there is none.
func present(ctx context.Context, s state.Store) (uint64, error) {
	all, err := s.Get(ctx, group.ListingKey)
	if err != nil || len(all.Entries) == 0 {
		return 0, err
	}
	n, err := revision.Number(ctx, s)
	if errors.Is(err, state.ErrUnavailable) || errors.Is(err, state.ErrRefused) {
		return 0, err
	}
	return generation(all.Entries[0].Revision, n), nil // follow reports other errors of the configuration
}
