package target

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// ErrTracing means that the commands of a target are being traced already.
var ErrTracing = errors.New("commands are being traced already")

// A TraceFilter selects the commands that are traced: those that match all fields that are set.
type TraceFilter struct {
	Host       nvmeof.NQN
	Subsystem  nvmeof.NQN
	NSID       capsule.NSID  // if set, admin and fabrics commands do not match
	SlowerThan time.Duration // if set, Asynchronous Event Requests do not match: they wait for their event
}

// A TracedCommand is a completed command.
type TracedCommand struct {
	Time       time.Time // of its arrival
	Host       nvmeof.NQN
	Subsystem  nvmeof.NQN           // empty, like Host, if there is no controller
	Controller capsule.ControllerID // 0 if there is no controller
	Queue      capsule.QID
	Command    capsule.Command
	Status     capsule.Status
	// Latency is the time from the arrival of the capsule until the response was sent; if that has data for the
	// host, until the host has acknowledged the data.
	Latency time.Duration
	Storage time.Duration // the part of Latency in which the store had it; -1: it was not submitted
	Fabric  time.Duration // the part of Latency in which its data was transferred

	arrived int64 // by the shard's clock
}

// tracedRecords is how many commands each shard keeps until they are read.
const tracedRecords = 4096

// tracing is a worker's part of a [Trace]. It belongs to the worker's shard.
type tracing struct {
	filter  TraceFilter
	records []TracedCommand
	begun   int // records from here on completed in this turn, and their times are not known yet
	dropped uint64
}

// add appends a record of a command that completes now, if it matches the filter.
func (t *tracing) add(r *request, s capsule.Status) *TracedCommand {
	c, f := r.queue.controller, &t.filter
	switch {
	case c == nil && (f.Host != "" || f.Subsystem != ""),
		c != nil && (f.Host != "" && f.Host != c.hostNQN || f.Subsystem != "" && f.Subsystem != c.subsystem.nqn),
		f.NSID != 0 && (r.io == nil || r.cmd.NSID != f.NSID),
		f.SlowerThan > 0 && r.awaitsEvent():
		return nil
	case len(t.records) == cap(t.records):
		t.dropped++
		return nil
	}
	t.records = append(t.records, TracedCommand{Queue: r.queue.id, Command: *r.cmd, Status: s, Latency: -1,
		Storage: time.Duration(r.stored), Fabric: time.Duration(r.moved), arrived: r.arrived})
	x := &t.records[len(t.records)-1]
	if c != nil {
		x.Host, x.Subsystem, x.Controller = c.hostNQN, c.subsystem.nqn, c.id
	}
	return x
}

// awaitsEvent reports whether the command is an Asynchronous Event Request.
func (r *request) awaitsEvent() bool {
	return r.queue.id == 0 && capsule.AdminOpcode(r.cmd.Opcode) == capsule.AdminAsyncEvent
}

// delivered appends a command whose data the host has acknowledged.
func (t *tracing) delivered(r *request, now int64) {
	if time.Duration(now-r.arrived) < t.filter.SlowerThan {
		return
	}
	if x := t.add(r, capsule.StatusSuccess); x != nil {
		x.Latency, x.Fabric = time.Duration(now-r.arrived), time.Duration(now-r.moving)
	}
}

// next sets the times of the commands that completed in the last turn, since responses are sent at the end of a
// turn.
func (t *tracing) next(now int64) {
	kept := t.records[:t.begun]
	for i := t.begun; i < len(t.records); i++ {
		x := &t.records[i]
		if x.Latency < 0 {
			x.Latency = time.Duration(now - x.arrived)
		}
		if x.Latency >= t.filter.SlowerThan {
			kept = append(kept, *x)
		}
	}
	t.records, t.begun = kept, len(kept)
}

// take returns the records whose times are known, and keeps the empty list for later records.
func (t *tracing) take(empty []TracedCommand) []TracedCommand {
	out := t.records[:t.begun]
	t.records, t.begun = append(empty[:0], t.records[t.begun:]...), 0
	return out
}

// follow starts the tracing of the worker's commands; nil stops it. While it is stopped it costs nothing.
func (w *worker) follow(t *tracing) {
	w.tracing = t
	if t == nil {
		w.shard.OnTurn(w.turn.Next)
		return
	}
	w.shard.OnTurn(func(now int64) {
		w.turn.Next(now)
		t.next(now)
	})
}

// A Trace records the commands of a target. It must not be used by several goroutines at a time.
type Trace struct {
	target  *Target
	filter  TraceFilter
	empty   map[*worker][]TracedCommand // lists to pass to the shards
	dropped map[*worker]uint64
}

// NewTrace begins to record the commands of t that match the filter. It fails with [ErrTracing] while t has
// another trace, and if Config.Unmeasured is set.
func NewTrace(t *Target, f TraceFilter) (*Trace, error) {
	if t.cfg.Unmeasured {
		return nil, errors.New("target: commands cannot be traced with Config.Unmeasured")
	}
	tr := &Trace{target: t, filter: f, empty: map[*worker][]TracedCommand{}, dropped: map[*worker]uint64{}}
	t.mu.Lock()
	busy := t.trace != nil
	if !busy {
		t.trace = tr
	}
	t.mu.Unlock()
	if busy {
		return nil, ErrTracing
	}
	_, _ = tr.Read() // begins the trace
	return tr, nil
}

// workers returns those of all current devices, or nil if the trace has ended.
func (tr *Trace) workers() (all []*worker) {
	tr.target.mu.Lock()
	defer tr.target.mu.Unlock()
	if tr.target.trace != tr {
		return nil
	}
	for _, d := range tr.target.devices {
		all = append(all, d.workers...)
	}
	return all
}

// Read returns the commands that completed since the last Read, in the order of their arrival, and how many were
// lost since the trace began because too many came between two Reads. It wakes the shards.
func (tr *Trace) Read() (commands []TracedCommand, dropped uint64) {
	for _, w := range tr.workers() {
		empty := tr.empty[w]
		if empty == nil {
			empty = make([]TracedCommand, 0, tracedRecords)
		}
		var full []TracedCommand
		var start time.Time // the zero of the shard's clock
		if w.shard.Call(func() {
			if w.tracing == nil {
				w.follow(&tracing{filter: tr.filter, records: make([]TracedCommand, 0, tracedRecords)})
			}
			full = w.tracing.take(empty)
			tr.dropped[w] = w.tracing.dropped
			start = time.Now().Add(-time.Duration(w.turn.Now))
		}) != nil {
			continue
		}
		for i := range full {
			full[i].Time = start.Add(time.Duration(full[i].arrived))
		}
		commands = append(commands, full...)
		tr.empty[w] = full
	}
	slices.SortStableFunc(commands, func(a, b TracedCommand) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	for _, n := range tr.dropped {
		dropped += n
	}
	return commands, dropped
}

// Close ends the trace.
func (tr *Trace) Close() {
	for _, w := range tr.workers() {
		_ = w.shard.Call(func() { w.follow(nil) })
	}
	tr.target.mu.Lock()
	defer tr.target.mu.Unlock()
	if tr.target.trace == tr {
		tr.target.trace = nil
	}
}
