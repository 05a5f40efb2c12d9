package gateways

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A kind is a fault, or a planned change, that a round makes.
type kind struct {
	class
	name  string
	until string // what the round's time measures
	do    func(*lab, *round) error
}

// A class says whether the host may notice a kind.
type class int

const (
	planned class = iota // the host should not notice
	sudden
)

// kinds are the faults and changes of gateways.
var kinds = []kind{
	{planned, "drain, resume", "drained -> served elsewhere", (*lab).drain},
	{planned, "ana-group move", "moved -> another epoch", (*lab).move},
	{planned, "SIGTERM, start", "stopped -> served elsewhere", (*lab).terminate},
	{sudden, "kill -9", "kill -> new owner optimized", (*lab).kill},
	{sudden, "kill -9, start at once", "kill -> an owner optimized", (*lab).restart},
	{sudden, "kill -9 while drained", "kill -> new owner optimized", (*lab).drainAndKill},
	{sudden, "kill -9 of two", "kill -> new owner optimized", (*lab).killTwo},
	{sudden, "SIGSTOP", "stop -> new owner optimized", func(l *lab, r *round) error { return l.pause(r, false) }},
	{sudden, "move, SIGSTOP", "stop -> new owner optimized", func(l *lab, r *round) error { return l.pause(r, true) }},
	{sudden, "all killed and started", "started -> all optimized", (*lab).all},
}

// next returns the kind of a round. Planned and sudden kinds alternate, each class in random order.
func (l *lab) next(round int) kind {
	c, turn := class(round%2), round/2
	var all []kind
	for _, k := range l.kinds {
		if k.class == c {
			all = append(all, k)
		}
	}
	if turn%len(all) == 0 {
		l.orders[c] = l.random.Perm(len(all))
	}
	return all[l.orders[c][turn%len(all)]]
}

// victim returns a random gateway that serves some ANA groups, and those groups.
func (l *lab) victim(r *round) (*gateway, []int) {
	id := 1 + l.random.IntN(spaces)
	owners := l.cluster.owners()
	for owners[id] == nil { // the group moves for balance: settle has seen that it is served
		owners = l.cluster.owners()
	}
	g := owners[id]
	r.victim = g.name
	var its []int
	for id, owner := range owners {
		if owner == g {
			its = append(its, id)
		}
	}
	return g, its
}

// another admits every gateway but this one.
func another(g *gateway) func(*gateway) bool { return func(o *gateway) bool { return o != g } }

func anyone(*gateway) bool { return true }

func everything() (all []int) {
	for id := 1; id <= spaces; id++ {
		all = append(all, id)
	}
	return all
}

func (l *lab) drain(r *round) error {
	g, its := l.victim(r)
	r.began = time.Now()
	if err := l.drainGateway(g); err != nil {
		return err
	}
	if err := r.served(l, its, another(g)); err != nil {
		return err
	}
	return l.resume(g)
}

func (l *lab) drainGateway(g *gateway) error {
	return l.cluster.order("POST", control.Path("gateways", g.name, "drain"), nil)
}

func (l *lab) resume(g *gateway) error {
	return l.cluster.order("POST", control.Path("gateways", g.name, "resume"), nil)
}

func (l *lab) move(r *round) error {
	g, its := l.victim(r)
	to, id := l.elsewhere(g), its[l.random.IntN(len(its))]
	before := l.cluster.epoch(id)
	r.began = time.Now()
	if err := l.cluster.move(id, to); err != nil {
		return err
	}
	err := l.cluster.within(context.Background(), serveTime, func(context.Context) error {
		if l.cluster.epoch(id) > before || l.cluster.owners()[id] == to {
			return nil // it may have moved again since, for balance
		}
		return fmt.Errorf("ANA group %d has not moved to %s", id, to.name)
	})
	r.took = time.Since(r.began)
	return err
}

// elsewhere returns a random other gateway.
func (l *lab) elsewhere(g *gateway) *gateway {
	for {
		if to := l.cluster.gateways[l.random.IntN(len(l.cluster.gateways))]; to != g {
			return to
		}
	}
}

func (l *lab) terminate(r *round) error {
	g, its := l.victim(r)
	r.began = time.Now()
	g.signal(syscall.SIGTERM)
	if err := r.served(l, its, another(g)); err != nil {
		return err
	}
	if err := g.wait(serveTime); err != nil {
		return err
	}
	return l.cluster.start()
}

func (l *lab) kill(r *round) error {
	g, its := l.victim(r)
	r.began = time.Now()
	g.kill()
	if err := r.served(l, its, another(g)); err != nil {
		return err
	}
	return l.cluster.start()
}

func (l *lab) killTwo(r *round) error {
	g, _ := l.victim(r)
	left := l.elsewhere(g)
	r.began = time.Now()
	for _, o := range l.cluster.gateways {
		if o != left {
			o.kill()
		}
	}
	if err := r.served(l, everything(), anyone); err != nil {
		return err
	}
	return l.cluster.start()
}

func (l *lab) restart(r *round) error {
	g, its := l.victim(r)
	r.began = time.Now()
	g.kill()
	if err := l.cluster.start(); err != nil {
		return err
	}
	return r.served(l, its, anyone)
}

func (l *lab) drainAndKill(r *round) error {
	g, its := l.victim(r)
	if err := l.drainGateway(g); err != nil {
		return err
	}
	time.Sleep(time.Duration(l.random.IntN(50)) * time.Millisecond)
	r.began = time.Now()
	g.kill()
	if err := r.served(l, its, another(g)); err != nil {
		return err
	}
	if err := l.cluster.start(); err != nil {
		return err
	}
	return l.resume(g)
}

// pause stops a gateway with SIGSTOP. If moving, it stops the gateway, or the one to which it is giving an ANA group.
func (l *lab) pause(r *round, moving bool) error {
	g, its := l.victim(r)
	if moving {
		to := l.elsewhere(g)
		if err := l.cluster.move(its[0], to); err != nil {
			return err
		}
		time.Sleep(time.Duration(l.random.IntN(50)) * time.Millisecond)
		if l.random.IntN(2) == 0 {
			g, its, r.victim = to, everything(), to.name
		}
	}
	r.began = time.Now()
	g.held = true
	g.signal(syscall.SIGSTOP)
	err := r.served(l, its, another(g))
	time.Sleep(time.Until(r.began.Add(*pause)))
	g.signal(syscall.SIGCONT)
	g.held = false
	return err
}

// all kills everything, and starts it again. The state must be as before.
func (l *lab) all(r *round) error {
	before, err := l.cluster.state()
	if err != nil {
		return err
	}
	l.cluster.store.kill()
	for _, g := range l.cluster.gateways {
		g.kill()
	}
	r.began = time.Now()
	if err := l.cluster.start(); err != nil {
		return err
	}
	if err := r.served(l, everything(), anyone); err != nil {
		return err
	}
	after, err := l.cluster.state()
	if err != nil {
		return err
	}
	return after.after(&before)
}
