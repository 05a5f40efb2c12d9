package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
)

// check judges the history, block by block: first by a model of its own, which can say what is wrong, then by
// porcupine, which finds everything that is not linearizable.
func (w *world) check() {
	for block := range w.blocks {
		var ops []*operation
		for _, o := range w.history {
			if o.touches(block) {
				ops = append(ops, o)
			}
		}
		if what := wrongRead(block, ops); what != "" {
			w.violation("block %d: %s", block, what)
			continue
		}
		if w.notLinearizable(block, ops) {
			w.violation("block %d: its history is not linearizable", block)
		}
	}
	for _, o := range w.history {
		if o.kind == flush && o.done {
			w.checkFlush(o)
		}
	}
}

// checkFlush judges what a host is told of writes that a power failure may have undone. The first flush that ends after
// the failure must fail with ErrWritesLost, and no flush may fail so without a power failure. If several targets share
// the disk, one may know of the failure and another answer, so a success is not judged.
func (w *world) checkFlush(f *operation) {
	lost := errors.Is(f.err, multipath.ErrWritesLost)
	why := w.undone(f)
	switch {
	case lost && !slices.ContainsFunc(w.history, func(c *operation) bool { return c.reboot && c.call < f.end }):
		w.violation("the flush of event %d says that writes are lost, and there was no power failure", f.call)
	case f.succeeded() && why != nil && len(w.servers) == 1 && w.disk.volatile:
		w.violation("the flush of event %d succeeded, and the %v of event %d, acknowledged at %d, was not durable when the power failed", f.call, why, why.call, why.end)
	}
}

// undone returns a write of the flush's host that was acknowledged before both the flush and a power failure, unless a
// flush in between made it durable or an earlier flush reported it as lost.
func (w *world) undone(f *operation) *operation {
	same := func(o *operation) bool { return o.kind != crash && o.host == f.host && o.life == f.life }
	for _, c := range w.history {
		if !c.reboot || c.end > f.end {
			continue
		}
		for _, o := range w.history {
			if !same(o) || !o.succeeded() || o.kind != write && o.kind != swap || o.fua || o.miscompare || o.end > c.call || o.end > f.call {
				continue
			}
			covered := func(g *operation) bool {
				if !same(g) || g.kind != flush {
					return false
				}
				if g.succeeded() && g.call > o.end && g.call < c.call && !c.mayUndo(o) {
					return true // executed before the power failure, completed after it
				}
				lost := errors.Is(g.err, multipath.ErrWritesLost) // reports an earlier failure; writes after that are durable
				return (g.succeeded() || lost) && g.call > o.end && g.end < c.call || lost && g.end > c.end && g.end < f.call
			}
			if !slices.ContainsFunc(w.history, covered) {
				return o
			}
		}
	}
	return nil
}

// wrongRead reports a read that returned neither the last acknowledged write nor a concurrent one.
func wrongRead(block int, ops []*operation) string {
	for _, r := range ops {
		if r.kind != read || !r.succeeded() {
			continue
		}
		if what := judge(block, ops, r); what != "" {
			return what
		}
	}
	return ""
}

// judge reports what is wrong with a read, or nothing if there is a write that it may have seen.
func judge(block int, ops []*operation, r *operation) string {
	v, what := r.of(block), ""
	sources := []*operation{}
	if v == 0 {
		sources = append(sources, nil) // the initial content of the disk
	}
	for _, o := range ops {
		if o.writes() && o.of(block) == v && o.call < r.end {
			sources = append(sources, o)
		}
	}
	if len(sources) == 0 {
		return fmt.Sprintf("the read of event %d returned %v, which nobody had written there", r.call, v)
	}
	for _, source := range sources {
		o := overwrites(block, ops, source, r)
		if o == nil {
			return ""
		}
		what = fmt.Sprintf("the read of event %d returned %v, but the %v of event %d", r.call, v, o, o.call)
		if source != nil {
			what += fmt.Sprintf(" came after the %v of event %d, and", source.kind, source.call)
		}
		what += fmt.Sprintf(" was acknowledged at event %d", o.end)
	}
	return what
}

// overwrites returns an acknowledged write that lies between source and r: it began after source ended and ended before
// r began, so that r cannot have read what source wrote.
func overwrites(block int, ops []*operation, source, r *operation) *operation {
	ended := int64(-1)
	if source != nil {
		ended = source.end
	}
	for _, o := range ops {
		if o.kind != write && o.kind != swap || !o.succeeded() || o.call < ended || o.end > r.call || o.of(block) == r.of(block) {
			continue
		}
		if survives(ops, o, r.end) {
			return o
		}
	}
	return nil
}

// survives reports whether a write was durable before the first power failure after it.
func survives(ops []*operation, o *operation, until int64) bool {
	for _, c := range ops {
		if c.kind != crash || c.end < o.call || c.call > until {
			continue
		}
		if o.fua && o.end < c.call {
			return true
		}
		for _, f := range ops {
			if f.kind == flush && f.succeeded() && f.call > o.end && f.end < c.call {
				return true
			}
		}
		return false
	}
	return true
}

// A register is the state of a block in porcupine's model.
type register struct {
	now value
	old string // the values that a power failure may leave, 8 bytes each; "" if no failure occurs
}

func (r register) with(v value, durable bool) register {
	if r.old == "" {
		return register{now: v}
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(v))
	if durable {
		return register{v, string(b)}
	}
	return register{v, r.old + string(b)}
}

// A maybe is a write that may or may not have been executed.
type maybe struct{ *operation }

func (w *world) notLinearizable(block int, ops []*operation) bool {
	crashes := false
	for _, o := range ops {
		crashes = crashes || o.kind == crash
	}
	initial := register{}
	if crashes {
		initial = initial.with(0, true)
		initial.old = string(make([]byte, 8))
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{initial} },
		Step: func(state, input, _ any) []any { return step(block, state.(register), input) },
	}
	var history []porcupine.Operation
	add := func(o *operation, input any) {
		history = append(history, porcupine.Operation{ClientId: o.host<<8 | o.worker, Input: input, Call: o.call, Return: o.end})
	}
	seen := seenValues(block, ops)
	for _, o := range ops {
		switch {
		case o.kind == crash, o.kind == swap && o.miscompare, o.succeeded():
			add(o, o)
		case o.writes() && seen(o):
			add(o, maybe{o})
		}
		if o.kind == write && seen(o) {
			for range w.repeats(block, o, ops) {
				add(o, maybe{o})
			}
		}
	}
	switch porcupine.CheckOperationsTimeout(model.ToModel(), history, 2*time.Second) {
	case porcupine.Illegal:
		return true
	case porcupine.Unknown:
		w.unchecked++
	}
	return false
}

// seenValues returns which writes of unknown outcome matter: those whose value a host has read, and all of them if a
// Compare and Write miscompared, because it does not return the value.
func seenValues(block int, ops []*operation) func(*operation) bool {
	values, all := map[value]bool{}, false
	for _, o := range ops {
		switch {
		case o.kind == read && o.succeeded():
			values[o.of(block)] = true
		case o.kind == swap && o.miscompare:
			all = true
		case o.kind == swap && o.succeeded():
			values[o.expected] = true
		}
	}
	return func(o *operation) bool { return all || values[o.of(block)] }
}

// repeats returns how many times a write may have been executed again, visibly for others. It is sent again each time
// its path is lost, a second later or more. That is visible only if another write, of another host or of the same
// worker at the same time, comes in between, or if the disk loses the first execution.
func (w *world) repeats(block int, o *operation, ops []*operation) (n int) {
	if o.until-o.at < time.Second {
		return 0
	}
	beside := func(c *operation) bool { return c != o && c.writes() && c.call < o.end && o.call < c.end }
	if w.shared(block) || slices.ContainsFunc(ops, beside) {
		n += w.clients[o.host].losses(o.at, o.until)
	}
	for _, c := range ops {
		if c.kind == crash && c.call > o.call && c.end < o.end {
			n++
		}
	}
	return n
}

// step is one operation of porcupine's model.
func step(block int, r register, input any) []any {
	if m, ok := input.(maybe); ok {
		next := step(block, r, &operation{kind: m.kind, first: m.first, values: m.values, expected: m.expected})
		return append(next, r)
	}
	o := input.(*operation)
	switch o.kind {
	case read:
		if r.now == o.of(block) {
			return []any{r}
		}
	case write:
		return []any{r.with(o.of(block), o.fua)}
	case swap:
		if (r.now == o.expected) == o.miscompare {
			return nil
		}
		if o.miscompare {
			return []any{r}
		}
		return []any{r.with(o.of(block), false)}
	case flush:
		return []any{r.with(r.now, true)}
	case crash:
		var all []any
		for i := 0; i < len(r.old); i += 8 {
			all = append(all, register{value(binary.BigEndian.Uint64([]byte(r.old[i:]))), r.old[i : i+8]})
		}
		return all
	}
	return nil
}
