package groupsim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
)

// A world is one simulation. Its time is the true time.
type world struct {
	seed   uint64
	rng    *rand.Rand
	wrong  fault // the injected fault
	now    time.Duration
	seq    uint64
	events []event // a heap
	steps  int

	store    *simulated.Store
	disk     *disk
	groups   []group.Group
	gateways []*gateway
	workers  []*worker
	lawyers  []*lawyer
	faults   bool // failures are injected
	loads    bool // gateways publish their I/O load
	book     *book

	telling    bool
	story      []string
	violations []string
}

// An event happens at its time. Events with the same time happen in the order in which they were scheduled.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func newWorld(seed uint64, wrong fault, telling bool) *world {
	w := &world{seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), wrong: wrong, telling: telling, now: time.Second}
	w.store = simulated.New(rand.New(rand.NewPCG(seed, 2)))
	w.book = newBook(w)
	w.loads = w.rng.IntN(4) == 0
	fences := w.rng.IntN(5) > 0
	for i := range 1 + w.rng.IntN(8) {
		g := group.Group{ID: group.ID(i + 1), Backend: group.Fenced}
		if !fences || w.rng.IntN(6) == 0 {
			g.Backend = group.Lease
		}
		w.groups = append(w.groups, g)
	}
	w.disk = newDisk(w)
	for i := range 2 + w.rng.IntN(5) {
		w.gateways = append(w.gateways, newGateway(w, i))
	}
	for i := range 1 + w.rng.IntN(4) {
		w.workers = append(w.workers, newWorker(w, i))
	}
	if w.rng.IntN(2) == 0 {
		for i := range w.workers {
			w.lawyers = append(w.lawyers, newLawyer(w, i))
		}
	}
	w.note("world: %d gateways, %d workers, groups %v, loads %v, reservations %v", len(w.gateways), len(w.workers), w.groups, w.loads, len(w.lawyers) > 0)
	return w
}

// after schedules do to be called after d.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	w.events = append(w.events, event{w.now + max(d, 0), w.seq, do})
	for i := len(w.events) - 1; i > 0; {
		up := (i - 1) / 2
		if !w.events[i].before(&w.events[up]) {
			return
		}
		w.events[i], w.events[up] = w.events[up], w.events[i]
		i = up
	}
}

func (w *world) pop() event {
	top, last := w.events[0], len(w.events)-1
	w.events[0], w.events[last] = w.events[last], event{}
	w.events = w.events[:last]
	for i := 0; ; {
		least := i
		for _, k := range [2]int{2*i + 1, 2*i + 2} {
			if k < last && w.events[k].before(&w.events[least]) {
				least = k
			}
		}
		if least == i {
			return top
		}
		w.events[i], w.events[least] = w.events[least], w.events[i]
		i = least
	}
}

func (w *world) wall() time.Time { return time.Unix(0, 0).Add(w.now) }

// run runs events until end, or until holds returns true.
func (w *world) run(end time.Duration, holds func() bool) bool {
	next := w.now
	for len(w.violations) == 0 {
		if holds != nil && w.now >= next {
			if holds() {
				return true
			}
			next = w.now + 250*time.Millisecond
		}
		at, ok := w.store.Next()
		stored := at.Sub(time.Unix(0, 0))
		if len(w.events) > 0 && (!ok || w.events[0].at <= stored) {
			if w.events[0].at > end {
				break
			}
			e := w.pop()
			w.now = max(w.now, e.at)
			e.do()
		} else {
			if !ok || stored > end {
				break
			}
			w.now = max(w.now, stored)
			for _, r := range w.store.Advance(w.wall()) {
				w.heard(r)
			}
		}
		w.steps++
	}
	w.now = max(w.now, end)
	return false
}

// heard passes a reply of the store to the process that waits for it.
func (w *world) heard(r simulated.Reply) {
	for _, g := range w.gateways {
		if g.client == r.Client && g.running {
			g.heard(r)
			return
		}
	}
}

// between returns a random duration from least to most.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)+1))
}

// note adds a line to the story.
func (w *world) note(format string, args ...any) {
	if w.telling {
		w.story = append(w.story, fmt.Sprintf("%10.4f ", w.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// violation reports a failed check.
func (w *world) violation(format string, args ...any) {
	w.note("VIOLATION "+format, args...)
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}
