package target

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/latency"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
)

// measured has the times of a command, by the clock of its shard's turns.
type measured struct {
	arrived   int64            // the beginning of the turn in which it arrived
	submitted int64            // when its last operation was submitted to the store
	stored    int64            // how long the store has had its operations
	moving    int64            // when the transfer of its data began; 0: none is under way
	moved     int64            // how long the transfer took
	meter     *meter.Namespace // of the namespace that it has entered, until it is completed
}

const notStored = -1

func (m *measured) storeTook(d int64) { m.stored = max(m.stored, 0) + d }

// countIn notes that the command has entered a namespace, possibly one of several.
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

// answered counts a command that completes without data.
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

// answeredWith counts a command that completes with data, whose transfer begins now.
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

// countStray counts a command that has entered no namespace: admin and fabrics commands, and I/O commands that
// failed before.
func (q *queue) countStray(r *request, s capsule.Status) {
	switch {
	case q.id == 0 || r.cmd.Opcode == capsule.OpcodeFabrics:
		q.countAdmin(r, s)
	case s.OK() || q.controller == nil || !q.worker.counts:
	default:
		q.worker.stray(q.controller.subsystem).Fail(s)
	}
}

// stray returns the counters of I/O commands to a subsystem that failed before they entered a namespace.
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

// fetched counts the RDMA READ of a command's data.
func (r *request) fetched() { r.hasMoved(&r.queue.worker.turn.FromHosts) }

// delivered counts the RDMA WRITE of a command's data, which the host has acknowledged.
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
