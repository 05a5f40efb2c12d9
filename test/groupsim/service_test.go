package groupsim

import (
	"errors"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
)

var (
	errInaccessible = errors.New("inaccessible")
	errConflict     = errors.New("reservation conflict")
	errUnknown      = errors.New("the command was aborted")
)

// A service is a group in one epoch, in the target of a gateway.
type service struct {
	g        *gateway
	id       group.ID
	epoch    uint64
	backend  group.Backend
	state    serviceState
	busy     [blocks]bool
	queue    [blocks][]*request
	inflight [blocks]int // by host; a host's block has its number
	law      law
}

type serviceState int

const (
	loading serviceState = iota
	open
	draining
)

// A request is a command of a host.
type request struct {
	group group.ID
	host  int
	block int
	value uint64 // 0: a read
	epoch uint64 // in which it was executed
	live  func() bool
	reply func(value uint64, err error)
}

func (s *service) current() bool { return s.g.services[s.id] == s }

func (g *gateway) serve(a group.Serve) {
	s := g.services[a.Group]
	if s != nil && s.epoch == a.Epoch && s.state == draining {
		s.state = open
		g.later(0, func() { g.step(group.Served{Group: a.Group, Epoch: a.Epoch}) })
		return
	}
	s = &service{g: g, id: a.Group, epoch: a.Epoch, backend: a.Backend}
	g.services[a.Group] = s
	g.later(g.w.between(time.Millisecond, 10*time.Millisecond), s.open)
}

// open reads the reservation as soon as the storage answers.
func (s *service) open() {
	if !s.current() || s.state != loading {
		return
	}
	if s.g.storageCut || s.g.w.now < s.g.w.disk.stopped {
		s.g.later(time.Second, func() { s.opened(errCut) })
		return
	}
	if s.g.w.wrong == weakFence {
		s.g.mapEpoch = s.g.w.disk.epoch
	}
	s.law.read(s, s.opened)
}

func (s *service) opened(err error) {
	if !s.current() || s.state != loading {
		return
	}
	if err == nil {
		s.state = open
	}
	s.g.step(group.Served{Group: s.id, Epoch: s.epoch, Err: err})
}

func (g *gateway) drain(a group.Drain) {
	s := g.services[a.Group]
	if s == nil || s.epoch != a.Epoch {
		g.later(0, func() { g.step(group.Drained{Group: a.Group, Epoch: a.Epoch}) })
		return
	}
	s.state = draining
	for b := range s.queue {
		for _, r := range s.queue[b] {
			r.reply(0, errInaccessible)
		}
		s.queue[b] = nil
	}
	s.drained()
}

// drained completes a drain when no write is in progress.
func (s *service) drained() {
	if s.state != draining || !s.current() || s.busy != [blocks]bool{} && s.g.w.wrong != earlyDrain {
		return
	}
	s.g.later(s.g.w.between(time.Millisecond, 5*time.Millisecond), func() {
		if s.current() && s.state == draining {
			delete(s.g.services, s.id)
			s.g.step(group.Drained{Group: s.id, Epoch: s.epoch})
		}
	})
}

// valid reports whether the service may execute a command: the check that the target makes before each command.
func (s *service) valid() bool {
	if s.state != open {
		return false
	}
	return s.backend != group.Lease || s.g.local() < s.g.until || s.g.w.wrong == ignoreTerm
}

// request handles a command of a host.
func (g *gateway) request(r *request) {
	s := g.services[r.group]
	switch {
	case !r.live():
	case s == nil || !s.valid() || !s.law.loaded:
		r.reply(0, errInaccessible)
	case r.value > 0 && !s.law.allows(r.host):
		s.refuse(func() bool { return !s.law.allows(r.host) }, func(err error) { r.reply(0, err) })
	case s.busy[r.block]:
		s.queue[r.block] = append(s.queue[r.block], r)
	default:
		s.submit(r)
	}
}

func (s *service) submit(r *request) {
	s.busy[r.block] = true
	if r.value > 0 {
		s.inflight[r.host]++
	}
	x := &write{g: s.g, life: s.g.life, inc: s.g.inc, map_: s.g.mapEpoch, group: s.id, epoch: s.epoch, block: r.block, value: r.value,
		host: r.host, right: s.g.w.book.right(s.id, r.host), leased: s.backend == group.Lease}
	x.done = func(value uint64, err error) { s.done(r, value, err) }
	s.g.w.disk.submit(x)
}

// answered handles a reply of the disk.
func (g *gateway) answered(x *write, value uint64, err error) {
	if g.running && g.life == x.life {
		g.soon(func() {
			x.done(value, err)
			if err == errBlocklisted {
				g.step(group.Blocklisted{Incarnation: x.inc})
			}
		})
	}
}

func (s *service) done(r *request, value uint64, err error) {
	s.busy[r.block] = false
	if r.value > 0 {
		s.inflight[r.host]--
	}
	if !s.current() || s.state == loading { // a group that this gateway no longer owns is not answered
		return
	}
	if err != nil {
		err = errInaccessible
	}
	r.epoch = s.epoch
	r.reply(value, err)
	s.law.settle(s)
	for len(s.queue[r.block]) > 0 && !s.busy[r.block] {
		next := s.queue[r.block][0]
		s.queue[r.block] = s.queue[r.block][1:]
		s.g.request(next)
	}
	s.drained()
}

// broken returns a transaction changed according to the injected fault.
func (g *gateway) broken(t state.Txn) state.Txn {
	if g.w.wrong == blindTake {
		t.If = nil
	}
	return t
}
