package groupsim

import (
	"fmt"
	"reflect"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

const (
	trouble = 30 * time.Second // how long failures are injected
	bound   = 90 * time.Second // limit for the recovery afterwards
)

// A fault is a deliberate error of the gateways, which the simulation must detect.
type fault int

const (
	nothing          fault = iota
	skipFence              // gateways do not fence, but believe that they did
	serveBeforeFence       // the fence is executed later
	weakFence              // the fence waits until the client has the map, and so do gateways that serve a group, but not the OSDs: no gateway visits them
	staleMap               // no gateway waits for any map
	earlyDrain             // a drain ends at once
	blindTake              // transactions have no compares
	ignoreTerm             // leases are used without a check of their term
	ignoreEpoch            // reservations are changed in any epoch
	staleConflict          // conflicts are answered by a gateway that may no longer be the owner
	deafAbort              // a preemption does not wait for the commands of the preempted host
)

// live runs a world from its start to its end.
func (w *world) live() {
	w.run(w.now+6*time.Second, nil)
	w.faults = true
	end := w.now + trouble
	for w.now < end && len(w.violations) == 0 {
		w.run(w.now+time.Duration(w.rng.ExpFloat64()*float64(1200*time.Millisecond)), nil)
		w.befall(w.gateways[w.rng.IntN(len(w.gateways))])
	}
	w.repair()
	begun := w.now
	if !w.run(w.now+bound, w.well) && len(w.violations) == 0 {
		w.violation("not well %v after the end of all faults: %s", bound, w.ill())
	}
	w.note("all is well after %v", w.now-begun)
	defer w.book.check()
	if w.rng.IntN(8) == 0 { // until everything that hangs has landed
		w.run(w.now+time.Minute, nil)
	}
}

// befall injects a failure or change at a gateway, or for all.
func (w *world) befall(g *gateway) {
	long := time.Duration(w.rng.ExpFloat64() * float64(4*time.Second))
	peer := w.gateways[w.rng.IntN(len(w.gateways))]
	switch w.rng.IntN(13) {
	case 0:
		if g.running {
			w.note("%s: killed for %v", g.name, long)
			g.kill()
		}
		w.after(long, g.start)
	case 1, 2:
		w.pause(g, min(4*long, time.Minute))
	case 3:
		w.link(g, simulated.Cut(), long)
	case 4:
		w.link(g, simulated.Link{CutRequests: w.rng.IntN(2) == 0, CutReplies: true, Late: 0.5}, long)
	case 5:
		w.link(g, simulated.Link{Slow: 400 * time.Millisecond, LoseRequest: 0.1, LoseReply: 0.2, Late: 0.5, Delay: 0.1}, 2*long)
	case 6:
		w.note("the store is down for %v", 2*long)
		w.store.SetDown(true)
		w.after(2*long, func() { w.store.SetDown(false) })
	case 7, 8:
		w.note("%s: cut off from the storage for %v", g.name, long)
		g.storageCut = true
		w.after(long, func() { g.storageCut = false })
	case 9:
		in := w.rng.IntN(2) == 0
		g.hostIn, g.hostOut = in, !in || w.rng.IntN(2) == 0
		w.note("%s: cut off from hosts for %v, %v and %v", g.name, long, g.hostIn, g.hostOut)
		w.after(long, func() { g.hostIn, g.hostOut = false, false })
	case 10:
		w.note("the storage stops for %v", long)
		w.disk.stopped = w.now + long
	case 11:
		w.command(peer, g)
	case 12:
		w.note("%s: is to leave, and starts again after %v", g.name, long)
		g.deliver(group.Leave{})
		w.after(w.between(0, 10*time.Second)+long, g.start)
	}
}

func (w *world) pause(g *gateway, d time.Duration) {
	if !g.running || g.paused {
		return
	}
	w.note("%s: paused for %v", g.name, d)
	g.paused = true
	life := g.life
	w.after(d, func() {
		if g.running && g.life == life && g.paused {
			w.note("%s: goes on", g.name)
			g.resume()
		}
	})
}

func (w *world) link(g *gateway, l simulated.Link, d time.Duration) {
	w.note("%s: its link to the store is %+v for %v", g.name, l, d)
	g.link = l
	w.store.SetLink(g.client, l)
	w.after(d, func() {
		g.link = simulated.Link{}
		w.store.SetLink(g.client, g.link)
	})
}

// command gives a gateway an administrator's command about another one.
func (w *world) command(at, to *gateway) {
	c := group.Command{Kind: []group.CommandKind{group.DrainGateway, group.UndrainGateway, group.FailGateway, group.MoveGroup, group.MoveGroup}[w.rng.IntN(5)],
		Gateway: to.name, Group: w.groups[w.rng.IntN(len(w.groups))].ID}
	w.note("%s: command %+v", at.name, c)
	at.deliver(c)
}

// repair ends all failures.
func (w *world) repair() {
	w.note("all is repaired")
	w.faults = false
	w.store.SetDown(false)
	w.disk.stopped = 0
	for _, g := range w.gateways {
		g.storageCut, g.hostIn, g.hostOut, g.link = false, false, false, simulated.Link{}
		w.store.SetLink(g.client, g.link)
		if g.paused {
			g.resume()
		}
	}
	w.undrain()
}

// undrain is repeated, because the gateway that receives the command may be fenced meanwhile.
func (w *world) undrain() {
	for _, g := range w.gateways {
		g.start()
		for _, o := range w.gateways {
			g.deliver(group.Command{Kind: group.UndrainGateway, Gateway: o.name})
		}
	}
	w.after(5*time.Second, w.undrain)
}

func (w *world) well() bool { return w.ill() == "" }

// ill returns what has not recovered.
func (w *world) ill() string {
	var count []int
	served := map[group.ID]*gateway{}
	for _, g := range w.gateways {
		n := 0
		for id, s := range g.services {
			if !g.running || s.state != open || !s.law.loaded {
				return fmt.Sprintf("%s: group %d is not open", g.name, id)
			}
			if served[id] != nil {
				return fmt.Sprintf("group %d is served by %s and %s", id, served[id].name, g.name)
			}
			served[id] = g
			n++
		}
		count = append(count, n)
	}
	if len(served) != len(w.groups) {
		return fmt.Sprintf("%d of %d groups are served", len(served), len(w.groups))
	}
	least, most := count[0], count[0]
	for _, n := range count {
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 && !w.loads {
		return fmt.Sprintf("the gateways serve %v groups", count)
	}
	for _, k := range w.workers {
		if k.busy && k.begun < w.now-5*time.Second {
			return fmt.Sprintf("host %d waits for a command", k.host)
		}
	}
	return w.disagreement()
}

// disagreement returns a difference between the engines' views.
func (w *world) disagreement() string {
	var all []group.GroupStatus
	for i, g := range w.gateways {
		s := g.engine.Status().Groups
		for j := range s {
			s[j].Served = false
		}
		if i == 0 {
			all = s
		} else if !reflect.DeepEqual(s, all) {
			return fmt.Sprintf("%s and %s do not agree: %+v and %+v", g.name, w.gateways[0].name, s, all)
		}
	}
	return ""
}
