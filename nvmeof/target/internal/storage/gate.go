package storage

import (
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/reservation"
)

// A Gate is one shard's entrance to a namespace. It belongs to the shard; while there is
// none of its index, to the mutex of Volumes.
type Gate struct {
	Namespace *Namespace
	Lane      *Lane        // the shard's, of the namespace's volume
	users     int          // operations inside
	shut      bool         // operations wait outside
	held      []*Operation // those, in order
	idle      func()       // called when nobody is inside

	counters
}

// An Entry is what became of an operation that wants to enter a namespace.
type Entry uint8

const (
	Entered  Entry = iota // it has the lane, until it is released
	Held                  // it waits outside; its owner hears when the gate opens
	Conflict              // it is kept out by another host's reservation
)

// Enter lets an operation of a host into the namespace, through the gate of a shard that
// has queues. What a reservation is about is its access.
func (n *Namespace) Enter(op *Operation, at Index, host capsule.HostID, a reservation.Access) Entry {
	g := n.Gate(at)
	if g.shut {
		g.Hold(op)
		return Held
	}
	if guard := n.Volume.Reservations.Guard(); guard != nil {
		if !guard.Allows(host, a) {
			return Conflict
		}
	}
	g.users++
	op.Gate = g
	g.Lane.Enter(op)
	return Entered
}

// Shut reports whether operations are held.
func (g *Gate) Shut() bool { return g.shut }

// leave is called when an operation that was let in goes.
func (g *Gate) leave() {
	g.users--
	g.report()
}

// report calls idle, once, if nobody is inside.
func (g *Gate) report() {
	if g.users == 0 && g.idle != nil {
		idle := g.idle
		g.idle = nil
		idle()
	}
}

// close keeps new commands outside; idle hears when the last inside has left.
func (g *Gate) close(idle func()) {
	g.shut, g.idle = true, idle
	g.report()
}

// open lets those who waited start anew, in order.
func (g *Gate) open() {
	g.shut, g.idle = false, nil
	held := g.held
	g.held = nil
	for _, op := range held {
		if op.outside == g { // its queue has not ended meanwhile
			op.outside = nil
			op.Owner.Admitted()
		}
	}
}

// Hold keeps an operation until the gate opens. There are no more of them than queues have
// entries.
func (g *Gate) Hold(op *Operation) {
	op.outside = g
	g.held = append(g.held, op)
}

// Forget takes an operation out that waits outside of a gate: its queue has ended.
func (op *Operation) Forget() {
	g := op.outside
	op.outside = nil
	g.held = slices.DeleteFunc(g.held, func(h *Operation) bool { return h == op })
}

// An entrance is a gate and the shard to which it belongs at the time. If that is
// closed since then, nobody is inside, and the gate may be another shard's.
type entrance struct {
	*Gate
	shard *shard.Shard
}

// shutFrom says whether gates are shut that are opened from now on, and returns those
// that are there.
func (n *Namespace) shutFrom(now bool) (out []entrance) {
	all := n.Volume.volumes
	all.mu.Lock()
	defer all.mu.Unlock()
	n.shut = now
	for _, d := range all.sites {
		for _, p := range d.places {
			out = append(out, entrance{n.gates[p.Index].Load(), p.Shard})
		}
	}
	return out
}

// quiet calls f for every gate in its shard, and tells when nobody is inside any more.
func (n *Namespace) quiet(shut bool, f func(g *Gate, idle func())) <-chan struct{} {
	done, left := make(chan struct{}), new(atomic.Int32)
	left.Store(1)
	leave := func() {
		if left.Add(-1) == 0 {
			close(done)
		}
	}
	for _, e := range n.shutFrom(shut) {
		left.Add(1)
		if e.shard.Call(func() { f(e.Gate, leave) }) != nil {
			leave()
		}
	}
	leave()
	return done
}

// Shut keeps new commands outside, and tells when nobody is inside any more.
func (n *Namespace) Shut() (quiet <-chan struct{}) { return n.quiet(true, (*Gate).close) }

// Unshut lets those go on who wait outside.
func (n *Namespace) Unshut() {
	for _, e := range n.shutFrom(false) {
		_ = e.shard.Call(e.open) // where the shard is closed nobody waits
	}
}

// Drain tells when no command is inside that found the namespace in a table of before.
// Those that were held find it gone.
func (n *Namespace) Drain() (quiet <-chan struct{}) { return n.quiet(false, (*Gate).drain) }

func (g *Gate) drain(idle func()) {
	g.open()
	g.idle = idle
	g.report()
}
