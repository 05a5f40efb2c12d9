package gateways

import (
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

// kinds are as often here as they are in twelve rounds.
var kinds = func() []kind {
	drained := kind{"drain, resume", "drained -> served elsewhere", (*lab).drain}
	moved := kind{"ana-group move", "moved -> served there", (*lab).move}
	killed := kind{"kill -9", "kill -> new owner optimized", (*lab).kill}
	return []kind{
		drained, drained, moved, moved, killed, killed,
		{"kill -9, start at once", "kill -> an owner optimized", (*lab).restart},
		{"SIGSTOP for 12 s", "stop -> new owner optimized", (*lab).pause},
		{"etcd SIGSTOP for 4 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopEtcd(r, withinLease) }},
		{"etcd SIGSTOP for 12 s", "continued -> all optimized", func(l *lab, r *round) error { return l.stopEtcd(r, beyondLease) }},
		{"all killed and started", "started -> all optimized", (*lab).all},
		{"etcd killed and started", "started -> all optimized", (*lab).killEtcd},
	}
}()

// victim is a gateway that serves something, and what.
func (l *lab) victim(r *round) (*gateway, []int) {
	owners := l.cluster.owners()
	g := owners[1+l.random.IntN(spaces)]
	if g == nil {
		g = l.cluster.gateways[0] // it is served on the host's paths, so this is seldom
	}
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
	var to *gateway
	for to == nil || to == g {
		to = l.cluster.gateways[l.random.IntN(len(l.cluster.gateways))]
	}
	if len(its) == 0 {
		its = everything()
	}
	id := its[l.random.IntN(len(its))]
	r.began = time.Now()
	if err := l.cluster.order("PUT", control.Path("group", "ana-groups", digits(id), "gateway"), map[string]string{"gateway": to.name}); err != nil {
		return err
	}
	return r.served(l, []int{id}, func(o *gateway) bool { return o == to })
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

func (l *lab) restart(r *round) error {
	g, its := l.victim(r)
	r.began = time.Now()
	g.kill()
	if err := l.cluster.start(); err != nil {
		return err
	}
	return r.served(l, its, anyone)
}

func (l *lab) pause(r *round) error {
	g, its := l.victim(r)
	r.began = time.Now()
	g.held = true
	g.signal(syscall.SIGSTOP)
	err := r.served(l, its, another(g))
	time.Sleep(time.Until(r.began.Add(beyondLease)))
	g.signal(syscall.SIGCONT)
	g.held = false
	return err
}

func (l *lab) stopEtcd(r *round, d time.Duration) error {
	l.cluster.etcd.signal(syscall.SIGSTOP)
	time.Sleep(d)
	r.began = time.Now()
	l.cluster.etcd.signal(syscall.SIGCONT)
	return r.served(l, everything(), anyone)
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
