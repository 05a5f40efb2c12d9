package target

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Adopt continues the associations that [Mover.Export] returned in another process. The target must have the same
// configuration as the other one: devices opened from those of the record, their listeners, the subsystems and the
// namespaces. Nothing is received and no command begins until the caller calls begin. Until then the other process
// may take its associations back, if this one ends without sending anything to hosts.
//
// Associations that this target does not allow then end. So do those that their hosts have given up because their
// keep alive timeout has passed meanwhile: a command that has not begun may be older than what the host has sent
// to another target since.
func Adopt(t *Target, m *Moved) (begin func(), _ error) {
	a := &adoption{target: t, record: &m.record, pause: t.clock() - m.record.At, controllers: make(map[controllerKey]*Controller), replaced: make(map[*Subsystem][]capsule.NSID)}
	t.mu.Lock()
	a.devices = append(a.devices, t.devices...)
	t.generation = max(t.generation, a.record.Generation) + 1
	t.mu.Unlock()
	a.each(func(w *worker) { w.turns.Hold() })
	for i := range a.record.Subsystems {
		a.restoreSubsystem(&a.record.Subsystems[i])
	}
	if err := a.queues(); err != nil {
		return nil, err
	}
	return a.begin, nil
}

// An adoption is the state of Adopt.
type adoption struct {
	target      *Target
	record      *movedRecord
	pause       time.Duration // time between Export and Adopt
	devices     []*Device
	controllers map[controllerKey]*Controller
	replaced    map[*Subsystem][]capsule.NSID // namespaces that differ from those of the record
	refused     int
}

type controllerKey struct {
	subsystem *Subsystem
	id        capsule.ControllerID
}

func (a *adoption) each(f func(w *worker)) {
	for _, d := range a.devices {
		for _, w := range d.workers {
			_ = w.shard.Call(func() { f(w) }) // a shard that has ended has no queues
		}
	}
}

// begin lets the devices receive, and commands begin.
func (a *adoption) begin() {
	for _, d := range a.devices {
		if m, ok := d.rdma.(rdmatransport.MovableDevice); ok {
			m.Begin()
		}
	}
	a.each(func(w *worker) { w.turns.Release() })
	a.announce()
}

// subsystem returns the subsystem of a record, or nil.
func (a *adoption) subsystem(x *movedSubsystem) *Subsystem {
	t := a.target
	if x.NQN == t.discSub.nqn {
		return t.discSub
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.subsystems[x.NQN]
}

// restoreSubsystem restores the state of a subsystem that hosts have seen. No controller has joined it yet.
func (a *adoption) restoreSubsystem(x *movedSubsystem) {
	s := a.subsystem(x)
	if s == nil {
		return // its queues are refused by join
	}
	s.progress.Store(x.Progress)
	s.counting.Lock()
	s.regroups.Advance(x.ANACount)
	s.counting.Unlock()
	continueLife(s, x.Life)
	s.mu.Lock()
	s.last = x.Last
	s.mu.Unlock()
	s.change.Lock()
	defer s.change.Unlock()
	s.generation.Store(x.Generation)
	for _, l := range x.Past {
		s.past[l.Identity.ID] = lineage{l.Identity, l.Shift, l.Generation, l.Successor}
	}
	for ns := range s.table().All {
		if s.succeed(ns) {
			a.replaced[s] = append(a.replaced[s], ns.ID)
		}
	}
	for _, n := range x.Namespaces {
		a.restoreNamespace(s, &n)
	}
}

// restoreNamespace restores the settings of hosts for a namespace.
func (a *adoption) restoreNamespace(s *Subsystem, n *movedNamespace) {
	ns := s.table().At(n.Identity.ID)
	if ns == nil || ns.Identity != n.Identity {
		return
	}
	ns.Protect(n.Protection)
	k := ns.Reservations()
	if k == nil {
		ns.Former = storage.Remembered(n.Reserved)
		return
	}
	if err := k.Restore(n.Reserved); err != nil {
		a.target.log.Trouble("reservations not saved", zap.Uint32("nsid", uint32(ns.ID)), zap.String("subsystem", string(s.nqn)), zap.Error(err))
	}
}

// queues continues all connections, those of admin queues first.
func (a *adoption) queues() error {
	var errs []error
	for _, admin := range []bool{true, false} {
		for i := range a.record.Workers {
			x := &a.record.Workers[i]
			w := a.worker(x)
			if w == nil {
				return fmt.Errorf("target: the previous process had a device %s with a shard %d, which this process does not have", x.Device, x.Index)
			}
			for j := range x.Queues {
				if q := &x.Queues[j]; (q.ID == 0) == admin {
					errs = append(errs, a.queue(w, q))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (a *adoption) worker(x *movedWorker) *worker {
	for _, d := range a.devices {
		if d.attrs.Name == x.Device && x.Index >= 0 && x.Index < len(d.workers) {
			return d.workers[x.Index]
		}
	}
	return nil
}

// queue continues a connection. If that fails, the host notices that nothing responds.
func (a *adoption) queue(w *worker, x *movedQueue) error {
	t := a.target
	l := a.listener(w.device, x)
	if l == nil {
		return fmt.Errorf("target: the previous process listened at %v, and this process does not", x.Listener)
	}
	q := t.newQueue(w, l, x.ID, x.Entries)
	q.local, q.remote = x.Local, x.Remote
	fq, why := q.enter(true, true)
	if why != "" {
		return fmt.Errorf("target: queue %d of %v: %s", x.ID, x.Remote, why)
	}
	var err error
	called := w.shard.Call(func() {
		if err = fq.Adopt(&x.Wire); err != nil {
			q.refused = true
			q.onClosed()
			return
		}
		a.start(q, fq, x)
	})
	if err = errors.Join(err, called); err != nil {
		return fmt.Errorf("target: queue %d of %v: %w", x.ID, x.Remote, err)
	}
	return nil
}

func (a *adoption) listener(d *Device, x *movedQueue) *Listener {
	a.target.mu.Lock()
	defer a.target.mu.Unlock()
	at := slices.IndexFunc(a.target.listeners, func(l *Listener) bool { return l.device == d && l.port.addr == x.Listener })
	if at < 0 {
		return nil
	}
	return a.target.listeners[at]
}

// start starts the queue. It runs in the queue's shard.
func (a *adoption) start(q *queue, fq *fabric.TargetQueue, x *movedQueue) {
	q.qpn = fq.QPN()
	q.start(fq.Commands())
	q.written.Restore(x.Written)
	if x.Subsystem != "" {
		if no := a.join(q, x); no.refused() {
			a.refused++
			q.target.log.Trouble("connection not taken over from the previous process", zap.Stringer("peer", q.remote), zap.Uint16("qid", uint16(q.id)), zap.String("reason", no.reason))
			q.disconnect(no.reason)
			return
		}
		q.shard.StopTimer(&q.timer)
		q.heard()
	}
	fq.Continue()
}

// join assigns the queue to its controller.
func (a *adoption) join(q *queue, x *movedQueue) refusal {
	i := slices.IndexFunc(a.record.Subsystems, func(s movedSubsystem) bool { return s.NQN == x.Subsystem })
	if i < 0 {
		return temporary(badSubNQN, "the record of its subsystem is missing")
	}
	s := a.subsystem(&a.record.Subsystems[i])
	if s == nil {
		return temporary(badSubNQN, "no such subsystem")
	}
	key := controllerKey{s, x.Controller}
	if q.id != 0 {
		c := a.controllers[key]
		if c == nil {
			return temporary(badCNTLID, "no such controller")
		}
		no := c.joinQueue(q, q.id)
		if !no.refused() {
			q.controller = c
		}
		return no
	}
	moved := a.record.Subsystems[i].Controllers
	j := slices.IndexFunc(moved, func(c movedController) bool { return c.ID == x.Controller })
	switch {
	case j < 0:
		return temporary(badCNTLID, "the record of its controller is missing")
	case moved[j].Lapse > 0 && (a.pause < 0 || a.pause >= moved[j].Lapse): // see expiry; below 0 the clocks differ, as in two time namespaces
		return temporary(badCNTLID, "its keep alive timeout expired during the takeover")
	}
	was := moved[j]
	was.Features.Age += max(a.pause, 0) // its Timestamp feature continues to count
	was.Notices.Pages = slices.DeleteFunc(slices.Clone(was.Notices.Pages), func(p capsule.ReservationLog) bool { return slices.Contains(a.replaced[s], p.NSID) })
	c, no := q.adoptController(s, &was, max(a.pause, 0))
	if !no.refused() {
		q.controller, a.controllers[key] = c, c
	}
	return no
}

// adoptController makes the queue the admin queue of a controller that the other process exported a pause ago.
func (q *queue) adoptController(s *Subsystem, x *movedController, pause time.Duration) (*Controller, refusal) {
	d := capsule.ConnectData{HostNQN: capsule.MakeNQNField(string(x.HostNQN)), HostID: x.HostID}
	c := newController(q, s, &d)
	c.id = x.ID
	c.authenticated.Store(x.Authenticated)
	if no := rejoin(s, c); no.refused() {
		return nil, no
	}
	named(c)
	restoreController(c, x)
	c.armKeepAlive()
	if x.Lapse > 0 { // counts until a command is noticed, which may have arrived during the pause
		c.presence.noticed -= pause
		c.expires.set(c.presence.noticed + x.Lapse)
		c.setKeepAliveTimer()
	}
	c.armSettle()
	if c.late.Load() {
		c.startLateness()
	}
	return c, refusal{}
}

// rejoin is join with the controller's previous identifier.
func rejoin(s *Subsystem, c *Controller) refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch no := s.judge(c); {
	case no.refused():
		return no
	case s.controllers[c.id] != nil:
		return temporary(badCNTLID, "another controller has its identifier")
	case !c.trusted():
		return temporary(badHostNQN, "the host has a key now, but had not authenticated")
	}
	if no := c.own(c.keyed); no.refused() {
		return no
	}
	s.controllers[c.id] = c
	return refusal{}
}

func restoreController(c *Controller, x *movedController) {
	now := c.now()
	c.connected = x.Connected
	c.props.CC, c.props.CSTS = x.CC, x.CSTS
	c.keep.Restore(x.KeepAlive, now)
	c.events.Restore(x.Events)
	c.changed.Restore(x.Changed)
	c.unidentified.Restore(x.Unidentified, now)
	c.notices.Restore(x.Notices)
	c.features.restore(&x.Features, now)
	knowHealth(c) // the record says which warnings were reported to the host
	c.warned, c.persistent = x.Warned, x.Persistent
	c.durable.Store(x.Durable)
	c.late.Store(x.Late)
	c.protested.Store(x.Protested)
	c.generation.Store(x.Generation)
	c.presence.heardAt.Store(int64(c.target.age() - x.Silent))
	c.errors.restore(x.ErrorCount, x.ErrorEntries)
	c.view.Born = x.Born
	c.view.Presumed.Store(x.Presumed)
	for _, n := range x.Identified {
		c.view.Restore(n.ID, n.Generation)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.granted, c.ready = x.Granted, x.Ready
	c.written.Restore(x.Written)
}

// announce notifies hosts of namespaces that have changed, and logs the result.
func (a *adoption) announce() {
	for i := range a.record.Subsystems {
		x := &a.record.Subsystems[i]
		if s := a.subsystem(x); s != nil {
			for _, id := range movedNSIDs(x.Namespaces, s) {
				s.namespaceChanged(id)
			}
		}
	}
	a.target.log.Info("associations taken over from the previous process", zap.Int("controllers", len(a.controllers)), zap.Int("refused", a.refused))
}
