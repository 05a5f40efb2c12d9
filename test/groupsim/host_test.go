package groupsim

import (
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

// A path is a host's connection to the gateways, with one command at a time.
type path struct {
	w       *world
	host    int
	attempt int
	belief  map[group.ID]int // the gateway that served the group last
}

// send sends a command to the gateway that is believed to serve a group. A command that the host has given up, which
// ends the connection, is no longer accepted.
func (p *path) send(id group.ID, limit time.Duration, arrive func(g *gateway, live func() bool, reply func(uint64, error)), then func(uint64, error)) {
	p.attempt++
	attempt, g := p.attempt, p.w.gateways[p.belief[id]%len(p.w.gateways)]
	live := func() bool { return p.attempt == attempt }
	end := func(value uint64, err error) {
		if live() {
			p.attempt++
			if err != nil && err != errConflict {
				p.belief[id]++
			}
			then(value, err)
		}
	}
	p.w.after(limit, func() { end(0, errUnknown) })
	if g.hostIn || !g.running {
		return
	}
	life := g.life
	p.w.after(p.w.between(50*time.Microsecond, time.Millisecond), func() {
		if !g.running || g.life != life {
			return
		}
		g.soon(func() {
			arrive(g, live, func(value uint64, err error) {
				if !g.hostOut {
					p.w.after(p.w.between(50*time.Microsecond, time.Millisecond), func() { end(value, err) })
				}
			})
		})
	})
}

// A worker writes ascending values to its block of each group, and reads them.
type worker struct {
	path
	value uint64
	busy  bool
	begun time.Duration
	done  int
}

func newWorker(w *world, host int) *worker {
	k := &worker{path: path{w: w, host: host, belief: map[group.ID]int{}}}
	w.after(w.between(0, 5*time.Second), k.next)
	return k
}

// next begins the next command.
func (k *worker) next() {
	g := k.w.groups[k.w.rng.IntN(len(k.w.groups))]
	value := uint64(0)
	if k.w.rng.IntN(4) > 0 {
		k.value++
		value = k.value
	}
	k.busy, k.begun = true, k.w.now
	k.try(g.ID, value, k.w.disk.cells[g.ID][k.host].acked, 0)
}

// try sends a command until it succeeds.
func (k *worker) try(id group.ID, value, acked uint64, failures int) {
	r := &request{group: id, host: k.host, block: k.host, value: value}
	begun := k.w.now
	k.send(id, 1500*time.Millisecond, func(g *gateway, live func() bool, reply func(uint64, error)) {
		r.live, r.reply = live, reply
		g.request(r)
	}, func(got uint64, err error) {
		if err == nil {
			k.w.book.epochs[id] = append(k.w.book.epochs[id], operation(k.host, r.epoch, begun, k.w.now))
		}
		switch {
		case err == errConflict:
		case err != nil:
			wait := k.w.between(0, 5*time.Millisecond)
			if failures >= len(k.w.gateways) {
				wait = k.w.between(50*time.Millisecond, 200*time.Millisecond)
			}
			k.w.after(wait, func() { k.try(id, value, acked, failures+1) })
			return
		case value > 0:
			c := &k.w.disk.cells[id][k.host]
			c.acked = max(c.acked, value)
		case got < acked:
			k.w.violation("a lost write: host %d reads %d of group %d, %d was acknowledged", k.host, got, id, acked)
		}
		if value > 0 {
			k.w.book.wrote(id, k.host, k.begun, err)
		}
		k.busy = false
		k.done++
		k.w.after(k.w.between(5*time.Millisecond, 120*time.Millisecond), k.next)
	})
}

// A lawyer sends the reservation commands of a host.
type lawyer struct{ path }

func newLawyer(w *world, host int) *lawyer {
	l := &lawyer{path{w: w, host: host, belief: map[group.ID]int{}}}
	w.after(w.between(0, 5*time.Second), l.next)
	return l
}

func (l *lawyer) next() {
	f := &filing{group: l.w.groups[l.w.rng.IntN(len(l.w.groups))].ID, host: l.host, victim: -1}
	if n := len(l.w.workers); n > 1 && l.w.rng.IntN(2) == 0 {
		f.victim = (l.host + 1 + l.w.rng.IntN(n-1)) % n
	}
	l.try(f, 0)
}

func (l *lawyer) try(f *filing, failures int) {
	end := l.w.book.begin(f)
	l.send(f.group, l.w.between(time.Second, 20*time.Second), func(g *gateway, live func() bool, reply func(uint64, error)) {
		copied := *f
		copied.live, copied.reply = live, func(err error) { reply(0, err) }
		g.file(&copied)
	}, func(_ uint64, err error) {
		end(err)
		if err == errInaccessible && failures < 2*len(l.w.gateways) {
			l.w.after(l.w.between(0, 50*time.Millisecond), func() { l.try(f, failures+1) })
			return
		}
		l.w.after(l.w.between(50*time.Millisecond, time.Second), l.next)
	})
}
