package gateways

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A kind is what may happen in a round.
type kind struct {
	name  string
	until string // what the round's time is
	do    func(*lab, *round) error
}

// A lease lasts for 10 s.
const (
	beyondLease = 12 * time.Second
	withinLease = 4 * time.Second
)

// planned are kinds that nobody should notice, and sudden are the others.
var (
	planned = []kind{
		{"drain, resume", "drained -> served elsewhere", (*lab).drain},
		{"ana-group move", "moved -> another epoch", (*lab).move},
		{"SIGTERM, start", "stopped -> served elsewhere", (*lab).terminate},
		{"etcd SIGSTOP for 4 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopEtcd(r, withinLease, false) }},
		{"etcd killed and started", "started -> all optimized", (*lab).killEtcd},
	}
	sudden = []kind{
		{"kill -9", "kill -> new owner optimized", (*lab).kill},
		{"kill -9, start at once", "kill -> an owner optimized", (*lab).restart},
		{"kill -9 while drained", "kill -> new owner optimized", (*lab).drainAndKill},
		{"kill -9 of two", "kill -> new owner optimized", (*lab).killTwo},
		{"SIGSTOP for 12 s", "stop -> new owner optimized", func(l *lab, r *round) error { return l.pause(r, false) }},
		{"move, SIGSTOP for 12 s", "stop -> new owner optimized", func(l *lab, r *round) error { return l.pause(r, true) }},
		{"etcd SIGSTOP for 12 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopEtcd(r, beyondLease, false) }},
		{"both: kill -9, etcd 12 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopEtcd(r, beyondLease, true) }},
		{"all killed and started", "started -> all optimized", (*lab).all},
	}
)

// next is the kind of a round: planned and sudden ones take turns, each in an order by chance.
func (l *lab) next(round int) kind {
	kinds := planned
	if round%2 == 1 {
		kinds = sudden
	}
	i := round / 2 % len(kinds)
	if i == 0 {
		l.random.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
	}
	return kinds[i]
}

// victim is a gateway that serves something, and what.
func (l *lab) victim(r *round) (*gateway, []int) {
	id := 1 + l.random.IntN(spaces)
	owners := l.cluster.owners()
	for owners[id] == nil { // it moves, for balance: settle has seen that it is served
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

// another gateway than this one.
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
	if err := l.cluster.order("POST", control.Path("gateways", g.name, "drain"), nil); err != nil {
		return err
	}
	if err := r.served(l, its, another(g)); err != nil {
		return err
	}
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

// elsewhere is another gateway.
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
	if err := l.cluster.order("POST", control.Path("gateways", g.name, "drain"), nil); err != nil {
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
	return l.cluster.order("POST", control.Path("gateways", g.name, "resume"), nil)
}

// pause stops a gateway, or the one to which it is giving an ANA group.
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
	time.Sleep(time.Until(r.began.Add(beyondLease)))
	g.signal(syscall.SIGCONT)
	g.held = false
	return err
}

// stopEtcd stops etcd for a time, in which a gateway may be killed.
func (l *lab) stopEtcd(r *round, d time.Duration, kill bool) error {
	g, _ := l.victim(r)
	l.cluster.etcd.signal(syscall.SIGSTOP)
	time.Sleep(d / 2)
	if kill {
		g.kill()
	}
	time.Sleep(d - d/2)
	r.began = time.Now()
	l.cluster.etcd.signal(syscall.SIGCONT)
	if err := r.served(l, everything(), anyone); err != nil {
		return err
	}
	return l.cluster.start()
}

func (l *lab) killEtcd(r *round) error {
	r.began = time.Now()
	l.cluster.etcd.kill()
	if err := l.cluster.start(); err != nil {
		return err
	}
	return r.served(l, everything(), anyone)
}

func (l *lab) all(r *round) error {
	l.cluster.etcd.kill()
	for _, g := range l.cluster.gateways {
		g.kill()
	}
	r.began = time.Now()
	if err := l.cluster.start(); err != nil {
		return err
	}
	return r.served(l, everything(), anyone)
}
