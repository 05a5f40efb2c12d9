package target

import (
	"slices"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/nvmeof/shard"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/volume"
)

// A gate is one shard's entrance to a namespace. It belongs to the shard; while there
// is none of its index, to Target.volumes.
type gate struct {
	ns    *Namespace
	lane  *volume.Lane // the shard's, of the namespace's volume
	users int          // operations inside
	shut  bool         // commands wait outside
	held  []*request   // those, in order
	idle  func()       // called when nobody is inside

	gateCounters
}

// gateCounters are what hosts did, read by other shards.
type gateCounters struct {
	reads, writes, readBytes, writeBytes atomic.Uint64
}

// A storeUser is a namespace as its volume knows it.
type storeUser Namespace

// Opened gives the namespace gates where the volume has lanes.
func (u *storeUser) Opened(v *volume.Volume, places []*volume.Place) {
	n := (*Namespace)(u)
	n.volume = v
	for _, p := range places {
		g := n.gates[p.Index].Load()
		if g == nil {
			g = &gate{ns: n, lane: v.Lanes[p.Index].Load()}
			n.gates[p.Index].Store(g)
		}
		g.shut = n.shut
	}
}

func (u *storeUser) Resized()  { u.subsystem.namespaceChanged(u.id) }
func (u *storeUser) Examined() { u.subsystem.healthChanged() }

// An entrance is a gate and the shard to which it belongs at the time. If that is
// closed since then, nobody is inside, and the gate may be another shard's.
type entrance struct {
	*gate
	shard *shard.Shard
}

// shutFrom says whether gates are shut that are opened from now on, and returns those
// that are there.
func (n *Namespace) shutFrom(now bool) (out []entrance) {
	volumes := &n.subsystem.target.volumes
	volumes.Lock()
	defer volumes.Unlock()
	n.shut = now
	for p := range volumes.Places {
		out = append(out, entrance{n.gates[p.Index].Load(), p.Shard})
	}
	return out
}

func (g *gate) leave() {
	g.users--
	g.report()
}

// report calls idle, once, if nobody is inside.
func (g *gate) report() {
	if g.users == 0 && g.idle != nil {
		idle := g.idle
		g.idle = nil
		idle()
	}
}

// close keeps new commands outside; idle hears when the last inside has left.
func (g *gate) close(idle func()) {
	g.shut, g.idle = true, idle
	g.report()
}

// open lets those who waited start anew, in order: the namespace may be another
// by now, or none.
func (g *gate) open() {
	g.shut, g.idle = false, nil
	held := g.held
	g.held = nil
	for _, r := range held {
		if r.waitingAt == g { // its queue has not ended meanwhile
			r.waitingAt = nil
			r.io.start(r.queue, r)
		}
	}
}

// hold keeps a command that has not begun. There are no more of them than the
// queues have entries.
func (g *gate) hold(r *request) {
	r.stage, r.waitingAt = stageGate, g
	g.held = append(g.held, r)
}

// forget takes out a command whose queue has ended.
func (g *gate) forget(r *request) {
	r.waitingAt = nil
	g.held = slices.DeleteFunc(g.held, func(h *request) bool { return h == r })
}
