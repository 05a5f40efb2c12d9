package groupsim

import (
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// callLimit is the timeout of a gateway's calls to the store.
const callLimit = time.Second

// A gateway is a machine with a gateway process, which may be down.
type gateway struct {
	w       *world
	name    string
	life    int // processes so far
	running bool
	paused  bool
	inbox   []func() // work that waits for the end of a pause
	births  int      // number of incarnations so far

	rate   float64 // of its clock
	offset time.Duration
	tickAt time.Duration // true time of the next Tick; 0: none

	engine   *group.Engine
	inc      group.Incarnation
	client   simulated.Client
	calls    map[simulated.Call]func(simulated.Reply)
	services map[group.ID]*service
	mapEpoch int           // that the client of the storage has
	until    time.Duration // of the leases, by its clock
	leaving  bool

	link            simulated.Link
	storageCut      bool
	hostIn, hostOut bool // cut directions of the network to hosts
}

func newGateway(w *world, n int) *gateway {
	g := &gateway{w: w, name: fmt.Sprintf("gw%d", n), rate: 0.95 + 0.1*w.rng.Float64(), offset: w.between(0, time.Hour)}
	w.after(w.between(0, 2*time.Second), g.start)
	return g
}

// local returns the time of the gateway's clock.
func (g *gateway) local() time.Duration {
	return g.offset + time.Duration(float64(g.w.now)*g.rate)
}

// start starts a process.
func (g *gateway) start() {
	if g.running {
		return
	}
	e, err := group.New(group.Config{Name: g.name, Addresses: []string{g.name}, LeaseTerm: 6 * time.Second,
		DrainTimeout: 5 * time.Second, Settle: 500 * time.Millisecond, FenceRenew: time.Minute})
	if err != nil {
		panic(err)
	}
	g.life++
	g.running, g.paused, g.leaving, g.inbox, g.engine, g.tickAt = true, false, false, nil, e, 0
	g.calls, g.services = map[simulated.Call]func(simulated.Reply){}, map[group.ID]*service{}
	g.client = g.w.store.Join()
	g.w.store.SetLink(g.client, g.link)
	g.w.note("%s: starts", g.name)
	g.calls[g.w.store.Watch(g.w.wall(), g.client, group.GroupPrefix)] = func(simulated.Reply) { g.step(group.Changed{}) }
	g.step(group.Configure{Groups: g.w.groups})
	g.begin()
	if g.w.loads {
		g.publish()
	}
}

// begin starts an incarnation as soon as the storage answers.
func (g *gateway) begin() {
	life := g.life
	if g.storageCut {
		g.w.after(500*time.Millisecond, func() {
			if g.running && g.life == life {
				g.soon(g.begin)
			}
		})
		return
	}
	g.births++
	g.inc, g.mapEpoch, g.until = group.Incarnation(fmt.Sprintf("%s.%d", g.name, g.births)), 0, 0
	g.step(group.Begin{Incarnation: g.inc, Storage: []string{"client of " + string(g.inc)}})
}

// publish publishes the I/O load.
func (g *gateway) publish() {
	loads := map[group.ID]uint64{}
	for _, x := range g.w.groups {
		if g.services[x.ID] != nil {
			loads[x.ID] = uint64(g.w.rng.IntN(int(x.ID) * 100))
		}
	}
	g.step(group.Loads{Loads: loads})
	life := g.life
	g.w.after(3*time.Second, func() {
		if g.running && g.life == life {
			g.soon(g.publish)
		}
	})
}

func (g *gateway) kill() {
	g.running, g.inbox, g.services = false, nil, nil
	g.w.store.Leave(g.client)
}

// soon calls do in the current process: at once, or at the end of its pause.
func (g *gateway) soon(do func()) {
	switch {
	case !g.running:
	case g.paused:
		g.inbox = append(g.inbox, do)
	default:
		do()
	}
}

func (g *gateway) resume() {
	g.paused = false
	all := g.inbox
	g.inbox = nil
	for life := g.life; len(all) > 0 && g.running && g.life == life; all = all[1:] {
		all[0]()
	}
}

// deliver passes an event to the engine of this process.
func (g *gateway) deliver(ev group.Event) { g.soon(func() { g.step(ev) }) }

// later calls do in this process after d.
func (g *gateway) later(d time.Duration, do func()) {
	life := g.life
	g.w.after(d, func() {
		if g.running && g.life == life {
			g.soon(do)
		}
	})
}

func (g *gateway) heard(r simulated.Reply) {
	if do := g.calls[r.Call]; do != nil {
		if !r.Changed {
			delete(g.calls, r.Call)
		}
		g.soon(func() { do(r) })
	}
}

func (g *gateway) step(ev group.Event) {
	for _, a := range g.engine.Step(g.local(), ev) {
		g.do(a)
	}
	d := g.engine.Deadline()
	if d == 1<<63-1 || !g.running {
		return
	}
	at := max(time.Duration(float64(d-g.offset)/g.rate)+time.Microsecond, g.w.now)
	if g.tickAt != 0 && g.tickAt <= at {
		return
	}
	g.tickAt = at
	life := g.life
	g.w.after(at-g.w.now, func() {
		if g.running && g.life == life && g.tickAt == at {
			g.tickAt = 0
			g.deliver(group.Tick{})
		}
	})
}

func (g *gateway) do(a group.Action) {
	switch a := a.(type) {
	case group.Get:
		g.calls[g.w.store.Get(g.w.wall(), g.client, a.Prefix, callLimit)] = func(r simulated.Reply) {
			g.step(group.Got{Token: a.Token, Snapshot: r.Snapshot, Err: r.Err})
		}
		return
	case group.Txn:
		g.commit(g.broken(a.Txn), func(r simulated.Reply) {
			g.step(group.Committed{Token: a.Token, Result: r.Result, Err: r.Err})
		})
		return
	case group.Extend:
		g.until = a.Until
		return
	case group.Serve:
		g.serve(a)
	case group.Drain:
		g.drain(a)
	case group.Stop:
		g.stop(a)
	case group.Fence:
		g.fence(a)
	case group.Rejoin:
		clear(g.services)
		g.later(g.w.between(50*time.Millisecond, 500*time.Millisecond), g.begin)
	case group.Left:
		g.w.note("%s (%s): has left", g.name, g.inc)
		g.kill()
		return
	}
	g.w.note("%s (%s): %T%+v", g.name, g.inc, a, a)
}

func (g *gateway) stop(a group.Stop) {
	s := g.services[a.Group]
	if s != nil && s.backend == group.Lease && g.w.wrong == ignoreTerm {
		g.later(10*time.Second, func() {
			if s.current() {
				delete(g.services, a.Group)
			}
		})
		return
	}
	delete(g.services, a.Group)
}

// commit sends a transaction, which may be executed twice.
func (g *gateway) commit(t state.Txn, done func(simulated.Reply)) {
	g.calls[g.w.store.Txn(g.w.wall(), g.client, t, callLimit)] = done
	if client := g.client; g.w.faults && g.w.rng.IntN(50) == 0 {
		g.w.after(g.w.between(0, 5*time.Second), func() { g.w.store.Txn(g.w.wall(), client, t, callLimit) })
	}
}

func (g *gateway) fence(a group.Fence) {
	if len(a.Storage) != 1 || a.Storage[0] != "client of "+string(a.Incarnation) {
		g.w.violation("%s fences %s by the addresses %q", g.name, a.Incarnation, a.Storage)
	}
	fenced := group.FenceResult{Incarnation: a.Incarnation}
	switch {
	case g.w.wrong == skipFence:
		g.later(time.Millisecond, func() { g.step(fenced) })
	case g.w.wrong == serveBeforeFence:
		g.later(time.Millisecond, func() { g.step(fenced) })
		g.w.after(10*time.Second, func() { g.w.disk.fence(g, a.Incarnation) })
	default:
		g.w.disk.fence(g, a.Incarnation)
	}
}
