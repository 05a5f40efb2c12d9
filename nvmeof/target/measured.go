package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/latency"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
)

// measured is what is known of the times of a command, in the clock of its shard's turns.
type measured struct {
	arrived   int64            // when the turn began
	submitted int64            // to the store, the last operation of it
	stored    int64            // how long the store has had it
	moving    int64            // since when its data is moved, 0: it is not
	moved     int64            // how long that took
	meter     *meter.Namespace // of the namespace that it has entered, until it is answered
}

const notStored = -1

func (m *measured) storeTook(d int64) { m.stored = max(m.stored, 0) + d }

// countIn notes that the command has entered a namespace, which may be one of several.
func (r *request) countIn(m *meter.Namespace) {
	if !r.queue.worker.counts {
		return
	}
	if r.meter != nil {
		r.meter.InFlight--
	}
	m.InFlight++
	r.meter = m
}

// answered counts a command that is answered without data.
func (r *request) answered(s capsule.Status) {
	if t := r.queue.worker.tracing; t != nil {
		t.add(r, s)
	}
	m := r.meter
	if m == nil {
		r.queue.countStray(r, s)
		return
	}
	switch {
	case !s.OK():
		m.Fail(s)
	case r.io.kind == meter.Write:
		m.Written += uint64(len(r.data))
	}
	r.note(m)
}

// answeredWith counts a command that is answered with data, which is on its way from now on.
func (r *request) answeredWith(bytes int) {
	r.moving = r.queue.worker.turn.Now
	if m := r.meter; m != nil {
		if r.io.kind == meter.Read {
			m.Read += uint64(bytes)
		}
		r.note(m)
	} else {
		r.queue.countStray(r, capsule.StatusSuccess)
	}
}

// countStray counts a command that has entered no namespace: those of admin queues and of
// fabrics, and I/O commands that failed before.
func (q *queue) countStray(r *request, s capsule.Status) {
	switch {
	case q.id == 0 || r.cmd.Opcode == capsule.OpcodeFabrics:
		q.countAdmin(r, s)
	case s.OK() || q.controller == nil || !q.worker.counts:
	default:
		q.worker.stray(q.controller.subsystem).Fail(s)
	}
}

// stray counts the failures of I/O commands to no namespace of a subsystem.
func (w *worker) stray(s *Subsystem) *meter.Namespace {
	m := w.strays[s.nqn]
	if m == nil {
		m = new(meter.Namespace)
		w.strays[s.nqn] = m
	}
	return m
}

func (r *request) note(m *meter.Namespace) {
	m.InFlight--
	r.meter = nil
	t := &r.queue.worker.turn
	t.Answers = append(t.Answers, meter.Answer{Namespace: m, Began: r.arrived, Stored: r.stored, Op: r.io.kind})
}

// fetched counts an RDMA READ of a command's data.
func (r *request) fetched() { r.hasMoved(&r.queue.worker.turn.FromHosts) }

// delivered counts an RDMA WRITE of a command's data, which the host has acknowledged.
func (r *request) delivered() {
	w := r.queue.worker
	if r.queue.failed || r.moving == 0 {
		return
	}
	if w.tracing != nil {
		w.tracing.delivered(r, w.turn.Now)
	}
	r.hasMoved(&w.turn.ToHosts)
}

func (r *request) hasMoved(h *latency.Histogram) {
	if r.moving == 0 {
		return
	}
	r.moved, r.moving = r.queue.worker.turn.Now-r.moving, 0
	if r.io != nil && r.queue.worker.counts {
		h.Observe(r.moved)
	}
}
