package storage

import (
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/meter"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// A Gate counts the operations of one shard in a namespace, and holds new ones while it is shut. It belongs to the
// shard; while no shard has its index, it is protected by the mutex of Volumes.
type Gate struct {
	Namespace *Namespace
	Lane      *Lane        // the lane of the shard to the namespace's volume
	users     int          // number of operations that have entered
	shut      bool         // new operations are held
	held      []*Operation // operations that wait, in order
	idle      []func()     // called when no operation is inside

	// Meter counts the commands that have entered.
	Meter meter.Namespace

	counters
}

// An Entry is the result of Enter.
type Entry uint8

const (
	Entered  Entry = iota // the operation uses the lane until it is released
	Held                  // it waits; its owner is called when the gate opens
	Conflict              // another host's reservation excludes it
	Lost                  // another target serves the namespace
)

// Enter lets an operation of a host enter the namespace through the gate of a shard that has queues, if the
// reservation allows the host this access.
func (n *Namespace) Enter(op *Operation, at Index, host capsule.HostID, a reservation.Access) Entry {
	g := n.Gate(at)
	if g.shut || g.Lane.full(0) {
		g.Hold(op)
		return Held
	}
	if guard := n.Volume.Reservations.Guard(); guard != nil {
		if !guard.Allows(host, a) {
			return refused(guard)
		}
	}
	g.users++
	op.Gate = g
	g.Lane.Enter(op)
	return Entered
}

func refused(g *reservation.Guard) Entry {
	if g.Lost {
		return Lost
	}
	return Conflict
}

// Shut reports whether operations are held, or would be if two entered together.
func (g *Gate) Shut() bool { return g.shut || g.Lane.full(1) }

// leave is called when an operation that has entered is released.
func (g *Gate) leave() {
	g.users--
	g.report()
}

// report calls the waiting functions, once, if no operation is inside.
func (g *Gate) report() {
	if g.users > 0 || g.idle == nil {
		return
	}
	idle := g.idle
	g.idle = nil
	for _, f := range idle {
		f()
	}
}

// await calls idle when the last operation inside has left, whether or not the gate is opened or shut meanwhile.
func (g *Gate) await(idle func()) {
	g.idle = append(g.idle, idle)
	g.report()
}

// close holds new operations; idle is called when the last one inside has left.
func (g *Gate) close(idle func()) {
	g.shut = true
	g.await(idle)
}

// open lets the waiting operations start again, in order.
func (g *Gate) open() {
	g.shut = false
	g.admit()
}

// admit lets the waiting operations start again.
func (g *Gate) admit() {
	held := g.held
	g.held = nil
	for _, op := range held {
		if op.outside == g { // false if its queue has ended meanwhile
			op.outside = nil
			op.Owner.Admitted()
		}
	}
}

// Hold keeps an operation until the gate opens. The number of held operations is bounded by the entries of queues.
func (g *Gate) Hold(op *Operation) {
	op.outside = g
	if g.held = append(g.held, op); g.Lane.stalled && !slices.Contains(g.Lane.gates, g) {
		g.Lane.gates = append(g.Lane.gates, g)
	}
}

// Forget removes an operation that waits at a gate, because its queue has ended.
func (op *Operation) Forget() {
	g := op.outside
	op.outside = nil
	g.held = slices.DeleteFunc(g.held, func(h *Operation) bool { return h == op })
}

// An entrance is a gate and the shard to which it belonged at the time. If that shard has been closed since, no
// operation is inside, and the gate may belong to another shard.
type entrance struct {
	*Gate
	shard *shard.Shard
}

// shutFrom sets whether gates that are created from now on are shut, and returns the existing ones.
func (n *Namespace) shutFrom(now bool) (out []entrance) {
	all := n.Volume.volumes
	all.mu.Lock()
	defer all.mu.Unlock()
	n.shut = now
	for _, d := range all.sites {
		for _, p := range d.shards {
			out = append(out, entrance{n.gates[p.Index].Load(), p.Shard})
		}
	}
	return out
}

// quiet calls f for every gate in its shard. It calls done, in a shard or before it returns, when no operation is
// inside any more.
func (n *Namespace) quiet(shut bool, f func(g *Gate, idle func()), done func()) {
	left := new(atomic.Int32)
	left.Store(1)
	leave := func() {
		if left.Add(-1) == 0 {
			done()
		}
	}
	for _, e := range n.shutFrom(shut) {
		left.Add(1)
		if e.shard.Call(func() { f(e.Gate, leave) }) != nil {
			leave()
		}
	}
	leave()
}

// Shut holds new operations. The channel is closed when no operation is inside any more.
func (n *Namespace) Shut() <-chan struct{} {
	quiet := make(chan struct{})
	n.quiet(true, (*Gate).close, func() { close(quiet) })
	return quiet
}

// Unshut lets the waiting operations continue.
func (n *Namespace) Unshut() {
	for _, e := range n.shutFrom(false) {
		_ = e.shard.Call(e.open) // a shard that is closed has none
	}
}

// Drain calls quiet, in a shard or before it returns, when no operation is inside that found the namespace in an
// earlier table. Held operations look up the namespace again.
func (n *Namespace) Drain(quiet func()) { n.quiet(false, (*Gate).drain, quiet) }

func (g *Gate) drain(idle func()) {
	g.open()
	g.await(idle)
}
