package target

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// A Mover hands the associations of a target's hosts over to another process, or another Target, without the hosts
// noticing: Suspend, then Export, and Adopt there. To hosts, commands only take longer. It must be used by one
// goroutine.
type Mover struct {
	target   *Target
	resumed  chan struct{} // closed when connections are accepted again
	workers  []*worker
	exported bool
}

// NewMover returns a mover of the target. It fails if the connections of a device cannot move, or the target has
// another mover. While a mover exists, no device, subsystem, namespace or listener may be added or removed.
func NewMover(t *Target) (*Mover, error) {
	if t.cfg.SharedReceives > 0 {
		return nil, errors.New("target: connections that share receives cannot move to another process")
	}
	m := &Mover{target: t, resumed: make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, fmt.Errorf("target: %w", rdmatransport.ErrClosed)
	case t.mover != nil:
		return nil, errors.New("target: its connections are being moved already")
	}
	for _, d := range t.devices {
		if _, ok := d.rdma.(rdmatransport.MovableDevice); !ok {
			return nil, fmt.Errorf("target: connections of device %s (%s) cannot move to another process: the kernel owns them", d.attrs.Name, d.attrs.Provider)
		}
		m.workers = append(m.workers, d.workers...)
	}
	t.mover = m
	return m, nil
}

// paused returns an error if an administrator has paused a namespace, since the pause would not be kept.
func (m *Mover) paused() error {
	for _, s := range m.target.Subsystems() {
		for _, ns := range s.Namespaces() {
			if ns.Paused() {
				return errPaused(ns)
			}
		}
	}
	return nil
}

const (
	// settlePeriod is the interval at which Suspend checks whether all queues are quiet.
	settlePeriod = 200 * time.Microsecond
	// strangersTime is how long hosts that are not admitted may delay the move.
	strangersTime = 50 * time.Millisecond
)

// Suspend keeps further commands from beginning, and waits until those under way have ended and their hosts have
// the responses. If ctx ends first, the error names what has not ended, and the target continues: Resume has been
// called.
func (m *Mover) Suspend(ctx context.Context) error {
	if err := m.paused(); err != nil {
		m.Resume()
		return err
	}
	m.each(func(w *worker) { w.turns.Hold() })
	begun := time.Now()
	for {
		busy := m.busy(time.Since(begun) > strangersTime)
		if len(busy) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			what := m.describe(busy)
			m.Resume()
			return fmt.Errorf("target: connections cannot move now: %s: %w", what, context.Cause(ctx))
		case <-time.After(settlePeriod):
		}
	}
}

// Resume lets the target continue. It does nothing after Export.
func (m *Mover) Resume() {
	t := m.target
	t.mu.Lock()
	was := t.mover == m
	if was && !m.exported {
		t.mover = nil
	}
	t.mu.Unlock()
	if !was || m.exported {
		return
	}
	close(m.resumed)
	m.each(func(w *worker) { w.turns.Release() })
}

// each calls f in all shards, one after the other.
func (m *Mover) each(f func(w *worker)) {
	for _, w := range m.workers {
		_ = w.shard.Call(func() { f(w) }) // a shard that has ended has no queues
	}
}

// busy describes what is under way. With late, it ends the connections of hosts that are not admitted and that
// delay the move: otherwise any peer could prevent a takeover, and keep the hosts waiting meanwhile.
func (m *Mover) busy(late bool) (what []string) {
	byWorker := m.queues()
	m.each(func(w *worker) {
		for _, q := range byWorker[w] {
			b := q.underWay()
			if b == "" {
				continue
			}
			if what = append(what, b); late && q.stranger() {
				q.target.log.Trouble("connection dropped: it delayed the takeover by another process; its host can connect again", zap.Stringer("peer", q.remote))
				q.disconnect("it delayed the takeover by another process")
			}
		}
	})
	return what
}

// stranger reports whether the queue's host is not admitted, or uses discovery. Called in the queue's shard.
func (q *queue) stranger() bool {
	return q.requests != nil && !q.failed && (!q.proven || q.controller.discovery())
}

// describe names the stores that do not answer or, if there is none, what hosts have under way.
func (m *Mover) describe(busy []string) string {
	if names := m.target.Unfinished(); len(names) > 0 {
		return "stores that do not answer: " + strings.Join(names, ", ")
	}
	more := ""
	if len(busy) > 1 {
		more = fmt.Sprintf(", and %d more", len(busy)-1)
	}
	return busy[0] + more
}

// queues returns all queues by worker, including those that have ended and are not freed yet.
func (m *Mover) queues() map[*worker][]*queue {
	t := m.target
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[*worker][]*queue)
	for q := range t.queues {
		out[q.worker] = append(out[q.worker], q)
	}
	return out
}

// underWay says what keeps a queue's connection from moving, or is empty if it can move. Called in its shard.
func (q *queue) underWay() string {
	who := func(what string) string { return fmt.Sprintf("%s, queue %d of %v", what, q.id, q.remote) }
	fq, _ := q.wire.(*fabric.TargetQueue)
	switch {
	case fq == nil || fq.State() == fabric.StateNew && !q.refused:
		return who("a connection is being established")
	case fq.State() == fabric.StateNew || fq.State() == fabric.StateClosed:
		return "" // it is about to be freed
	case q.failed || q.leaving != nil || q.parting || fq.State() != fabric.StateLive:
		return who("a connection is ending")
	case q.auth.locked || q.auth.busy || q.auth.last != nil:
		return who("a host is authenticating")
	case q.controller != nil && q.id == 0 && occupied(q.controller):
		return who("a controller is being shut down")
	}
	for i := range q.requests {
		if r := &q.requests[i]; r.stage != stageIdle && !r.parked() {
			return who("a command is being executed, or its response is under way")
		}
	}
	if !fq.Quiet() {
		return who("a host has not acknowledged all data")
	}
	return ""
}

// occupied reports whether the controller waits for flushes, or has commands to abort.
func occupied(c *Controller) bool {
	return c.shutdown.waiting || c.shutdown.active || len(c.flushing.all) > 0 || len(c.flushing.protecting) > 0 || c.aborts > 0
}

// parked reports whether the execution of a command has not begun, so that it can begin in another process.
func (r *request) parked() bool {
	q := r.queue
	switch r.stage {
	case stageHeld:
		return q.id == 0 && r.cmd.Opcode == capsule.Opcode(capsule.AdminAsyncEvent)
	case stageFused:
		if first := r.pairedWith(); first != nil {
			return first.stage == stageUnseen || first.stage == stageGate
		}
		return q.first == r
	}
	return r.stage == stageUnseen || r.stage == stageGate
}

// pairedWith returns the other half of a fused operation, or nil.
func (r *request) pairedWith() *request {
	if r.extra == nil {
		return nil
	}
	return r.extra.partner
}

// Ended reports whether Export has stopped the target, which has to be closed then.
func (m *Mover) Ended() bool { return m.exported }

// Export stops the shards and returns the state of all associations; it is called after Suspend. Hosts do not
// notice the end of the target, which has to be closed now. After an error there are two cases: either the target
// continues, or, if Ended reports true, it has stopped, and the exported associations are lost as in a crash.
func (m *Mover) Export(ctx context.Context) (*Moved, error) {
	settled, err := m.settle(ctx)
	if err != nil {
		m.Resume()
		return nil, err
	}
	defer settled()
	for _, d := range m.devices() {
		if err := d.rdma.(rdmatransport.MovableDevice).Prepare(); err != nil {
			m.Resume()
			return nil, fmt.Errorf("target: connections cannot move now: device %s: %w", d.attrs.Name, err)
		}
	}
	release, err := m.park(ctx)
	if err != nil {
		m.Resume()
		return nil, err
	}
	defer release()
	m.exported = true
	m.target.moved.Store(true)
	out := &Moved{record: m.exportSubsystems()}
	if err := m.export(out); err != nil {
		for _, d := range out.Devices {
			err = errors.Join(err, d.Moved.Close())
		}
		return nil, err
	}
	return out, nil
}

// export adds the queues and the devices to out. All shards are stopped.
func (m *Mover) export(out *Moved) error {
	byWorker := m.queues()
	for _, w := range m.workers {
		x := movedWorker{Device: w.device.attrs.Name, Index: slices.Index(w.device.workers, w)}
		for _, q := range byWorker[w] {
			fq := q.wire.(*fabric.TargetQueue)
			if fq.State() != fabric.StateLive {
				continue
			}
			moved, err := q.export(fq)
			if err != nil {
				return err
			}
			x.Queues = append(x.Queues, moved)
		}
		slices.SortStableFunc(x.Queues, func(a, b movedQueue) int { return int(a.ID) - int(b.ID) })
		out.record.Workers = append(out.record.Workers, x)
	}
	for _, d := range m.devices() {
		moved, err := d.rdma.(rdmatransport.MovableDevice).Move()
		if err != nil {
			return fmt.Errorf("target: device %s: %w", d.attrs.Name, err)
		}
		out.Devices = append(out.Devices, MovedDevice{d.attrs.Name, d.rdma, moved})
	}
	return nil
}

func (m *Mover) devices() (all []*Device) {
	for _, w := range m.workers {
		if !slices.Contains(all, w.device) {
			all = append(all, w.device)
		}
	}
	return all
}

// settle keeps the subsystems from being changed, and their records from being saved, until release is called.
// Changing a namespace waits for shards, which park stops, and saving a record waits for a file system.
func (m *Mover) settle(ctx context.Context) (release func(), err error) {
	type lock interface {
		TryLock() bool
		Unlock()
	}
	var held []lock
	release = func() {
		for _, mu := range slices.Backward(held) {
			mu.Unlock()
		}
	}
	for _, s := range m.subsystems() {
		for _, mu := range []lock{&s.change, &s.life.mu} {
			for !mu.TryLock() {
				select {
				case <-ctx.Done():
					release()
					return nil, fmt.Errorf("target: connections cannot move now: subsystem %s is being changed, or its state is being saved: %w", s.nqn, context.Cause(ctx))
				case <-time.After(settlePeriod):
				}
			}
			held = append(held, mu)
		}
		for _, n := range s.Namespaces() {
			if n.pause != nil || n.pausing != nil {
				release()
				return nil, errPaused(n)
			}
		}
	}
	return release, nil
}

// subsystems returns all subsystems and the discovery subsystem.
func (m *Mover) subsystems() []*Subsystem {
	return append(slices.Clone(m.target.Subsystems()), m.target.discSub)
}

func errPaused(n *Namespace) error {
	return fmt.Errorf("target: connections cannot move now: namespace %d of %s is paused: resume it first", n.ID(), n.subsystem.nqn)
}

// park stops all shards at a moment at which nothing is under way in any.
func (m *Mover) park(ctx context.Context) (release func(), err error) {
	for {
		release := m.parkAll()
		var busy []string
		for _, queues := range m.queues() {
			for _, q := range queues {
				if b := q.underWay(); b != "" {
					busy = append(busy, b)
				}
			}
		}
		if len(busy) == 0 {
			return release, nil
		}
		release()
		m.busy(true)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("target: connections cannot move now: %s: %w", m.describe(busy), context.Cause(ctx))
		case <-time.After(settlePeriod):
		}
	}
}

// parkAll stops all shards until release is called. Meanwhile the caller may access their state.
func (m *Mover) parkAll() (release func()) {
	end := make(chan struct{})
	var parked sync.WaitGroup
	for _, w := range m.workers {
		parked.Add(1)
		if !w.shard.Do(func() { parked.Done(); <-end }) {
			parked.Done()
		}
	}
	parked.Wait()
	return func() { close(end) }
}

// awaitMover waits until connections are accepted again. It returns false if the target closes meanwhile.
func (l *Listener) awaitMover() bool {
	t := l.target
	t.mu.Lock()
	m := t.mover
	t.mu.Unlock()
	if m == nil {
		return true
	}
	select {
	case <-m.resumed:
		return true
	case <-t.context.Done():
		return false
	}
}
