package target

import (
	"cmp"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// exportSubsystems returns the state of the subsystems that hosts have seen. All shards are stopped.
func (m *Mover) exportSubsystems() movedRecord {
	t := m.target
	t.mu.Lock()
	r := movedRecord{At: t.clock(), Generation: t.generation}
	t.mu.Unlock()
	for _, s := range m.subsystems() {
		r.Subsystems = append(r.Subsystems, exportSubsystem(s))
	}
	return r
}

// exportSubsystem returns the state of one subsystem. Called while settle prevents changes of it.
func exportSubsystem(s *Subsystem) movedSubsystem {
	x := movedSubsystem{
		NQN: s.nqn, Progress: s.progress.Load(), Life: exportLife(s), Generation: s.generation.Load(),
	}
	regroups := s.groupChanges()
	for _, l := range s.target.Listeners() {
		x.ANACount = max(x.ANACount, ana.Count(l.ana.Load(), &regroups))
	}
	for _, l := range s.past {
		x.Past = append(x.Past, movedLineage{l.identity, l.shift, l.generation, l.successor})
	}
	slices.SortFunc(x.Past, func(a, b movedLineage) int { return cmp.Compare(a.Identity.ID, b.Identity.ID) })
	for ns := range s.table().Listed {
		n := movedNamespace{Identity: ns.Identity, Away: ns.Away(), Protection: ns.Protection()}
		if k := ns.Reservations(); k != nil {
			n.Reserved = *k.State()
		}
		x.Namespaces = append(x.Namespaces, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.Last = s.last
	for _, c := range s.controllers {
		if c.admin.failed {
			continue
		}
		x.Controllers = append(x.Controllers, exportController(c))
	}
	slices.SortFunc(x.Controllers, func(a, b movedController) int { return cmp.Compare(a.ID, b.ID) })
	return x
}

func exportController(c *Controller) movedController {
	x := movedController{
		ID: c.id, HostNQN: c.hostNQN, HostID: c.hostID, Connected: c.connected,
		CC: c.props.CC, CSTS: c.props.CSTS, KeepAlive: c.keep.Export(), Events: c.events.Export(), Changed: c.changed.Export(),
		Unidentified: c.unidentified.Export(), Notices: c.notices.Export(), Features: c.features.export(c.now()), Warned: c.warned,
		Persistent: slices.Clone(c.persistent), Durable: c.durable.Load(), Late: c.late.Load(), Protested: c.protested.Load(),
		Generation: c.generation.Load(), Authenticated: c.authenticated.Load(), Born: c.view.Born, Presumed: c.view.Presumed.Load(),
	}
	c.mu.Lock()
	x.Granted, x.Ready, x.Written = c.granted, c.ready, c.written.Export()
	c.mu.Unlock()
	x.Silent, _ = c.presence.silence(c.target.age())
	x.Lapse = c.expires.left(c.target.age())
	x.ErrorCount, x.ErrorEntries = c.errors.export()
	for id, generation := range c.view.Export {
		x.Identified = append(x.Identified, movedIdentification{id, generation})
	}
	return x
}

func (f *features) export(now int64) movedFeatures {
	return movedFeatures{
		Values: slices.Clone(f.values[:]), Timestamp: f.timestamp, Age: time.Duration(now - f.stampedAt), Stamped: f.stamped,
		HostConfig: slices.Clone(f.hostConfig[:]), Limits: f.limits.Export(),
	}
}

func (f *features) restore(m *movedFeatures, now int64) {
	copy(f.values[:], m.Values)
	copy(f.hostConfig[:], m.HostConfig)
	f.timestamp, f.stampedAt, f.stamped, f.limits = m.Timestamp, now-int64(m.Age), m.Stamped, m.Limits.Restore()
}

// export ends the queue in this process.
func (q *queue) export(fq *fabric.TargetQueue) (movedQueue, error) {
	x := movedQueue{ID: q.id, Entries: q.entries, Listener: q.listener.Addr(), Local: q.local, Remote: q.remote, Written: q.written.Export()}
	if c := q.controller; c != nil {
		x.Subsystem, x.Controller = c.subsystem.nqn, c.id
	}
	var err error
	x.Wire, err = fq.Export(q.begun())
	return x, err
}

// begun returns the commands whose execution has not begun, in the order in which they are to begin again: the
// halves of a fused operation follow each other, and a first half without its second is the last.
func (q *queue) begun() (all []*fabric.Command) {
	add := func(r *request) { all = append(all, r.link.(*fabric.Command)) }
	for i := range q.requests {
		r := &q.requests[i]
		if r.stage == stageIdle || r.stage == stageFused {
			continue
		}
		add(r)
		if second := r.pairedWith(); second != nil {
			add(second)
		}
	}
	if q.first != nil {
		add(q.first)
	}
	return all
}

// movedNSIDs returns the NSIDs at which hosts may find a change: those of namespaces that are in only one of the
// lists, or differ between them.
func movedNSIDs(before []movedNamespace, now *Subsystem) (changed []capsule.NSID) {
	there := make(map[capsule.NSID]movedNamespace)
	for ns := range now.table().Listed {
		there[ns.ID] = movedNamespace{Identity: ns.Identity, Away: ns.Away()}
	}
	for _, n := range before {
		if o, ok := there[n.Identity.ID]; !ok || o.Identity != n.Identity || o.Away != n.Away {
			changed = append(changed, n.Identity.ID)
		}
		delete(there, n.Identity.ID)
	}
	for id := range there {
		changed = append(changed, id)
	}
	slices.Sort(changed)
	return changed
}
