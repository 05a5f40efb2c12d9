package namespace

import (
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// A Gate is one shard's entrance to a namespace. It belongs to the shard; while there is
// none of its index, to the mutex of the set of volumes.
type Gate struct {
	Namespace *Namespace
	Lane      *volume.Lane // the shard's, of the namespace's volume
	users     int          // operations inside
	shut      bool         // commands wait outside
	held      []Visitor    // those, in order
	idle      func()       // called when nobody is inside

	counters
}

// A Visitor waits outside of a gate. It has not begun.
type Visitor interface {
	// Admitted is called when the gate opens; the namespace may be another by now, or none.
	Admitted(g *Gate)
}

// Shut reports whether a visitor has to be held.
func (g *Gate) Shut() bool { return g.shut }

// Enter is called for each visitor that is let in, and Leave when it goes.
func (g *Gate) Enter() { g.users++ }

func (g *Gate) Leave() {
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
	for _, v := range held {
		v.Admitted(g)
	}
}

// Hold keeps a visitor until the gate opens. There are no more of them than queues have
// entries.
func (g *Gate) Hold(v Visitor) { g.held = append(g.held, v) }

// Forget takes out a visitor whose queue has ended.
func (g *Gate) Forget(v Visitor) {
	g.held = slices.DeleteFunc(g.held, func(h Visitor) bool { return h == v })
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
	set := n.Volume.Set()
	set.Lock()
	defer set.Unlock()
	n.shut = now
	for p := range set.Places {
		out = append(out, entrance{n.gates[p.Index].Load(), p.Shard})
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
