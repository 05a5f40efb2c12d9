package runner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group"
)

// ErrClosed is the error of calls to a runner that has ended.
var ErrClosed = errors.New("the gateway has left its group")

// A Runner is one gateway of a group.
type Runner struct {
	cfg    Config
	ctx    context.Context // of everything
	cancel context.CancelFunc
	inbox  chan func() // functions for the engine's goroutine
	done   chan struct{}
	wait   sync.WaitGroup // for all goroutines except transactions
	calls  sync.WaitGroup // for transactions
	holds  atomic.Pointer[map[group.ID]group.Hold]

	// Only the engine's goroutine uses these.
	engine  *group.Engine
	life    context.Context // of the incarnation
	end     context.CancelFunc
	jobs    map[group.ID]*job
	last    group.Status
	answers map[uint64]chan error
	token   uint64
	left    bool
}

// loadsEvery is how often the target is asked for its I/O.
const loadsEvery = time.Second

// Start starts a gateway, which registers as soon as its storage and the store answer.
func Start(c Config) (*Runner, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	e, err := group.New(c.Gateway)
	if err != nil {
		return nil, err
	}
	r := &Runner{cfg: c, engine: e, inbox: make(chan func()), done: make(chan struct{}), jobs: map[group.ID]*job{}, answers: map[uint64]chan error{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.holds.Store(new(map[group.ID]group.Hold))
	go r.run() // ends with Close, or when the gateway has left
	r.spawn(func() {
		_ = c.Store.Watch(r.ctx, group.GroupPrefix, func() { r.post(func() { r.step(group.Changed{}) }) })
	})
	return r, nil
}

// spawn starts a slow operation. It ends when a context of the runner ends.
func (r *Runner) spawn(do func()) {
	r.wait.Go(do) // Close waits for it
}

// post queues a function for the engine's goroutine.
func (r *Runner) post(do func()) bool {
	select {
	case r.inbox <- do:
		return true
	case <-r.done:
		return false
	}
}

func (r *Runner) run() {
	defer close(r.done)
	r.step(group.Configure{Groups: r.cfg.Groups})
	r.open(func() {})
	timer, loads := time.NewTimer(0), time.NewTicker(loadsEvery)
	defer timer.Stop()
	defer loads.Stop()
	for !r.left {
		timer.Reset(max(r.engine.Deadline()-r.cfg.Clock(), 0))
		select {
		case <-r.ctx.Done():
			return
		case do := <-r.inbox:
			do()
		case <-timer.C:
			r.step(group.Tick{})
		case <-loads.C:
			r.step(group.Loads{Loads: r.cfg.Target.Loads(), Sizes: r.cfg.Target.Sizes()})
		}
	}
}

// open begins an incarnation once the previous one has ended.
func (r *Runner) open(before func()) {
	r.life, r.end = context.WithCancel(r.ctx)
	life, inc := r.life, newIncarnation()
	r.spawn(func() {
		before()
		for life.Err() == nil {
			addresses, err := r.cfg.Target.Open(life, inc)
			if err == nil {
				r.post(func() {
					r.step(group.Begin{Incarnation: inc, Storage: addresses})
				})
				return
			}
			select {
			case <-life.Done():
			case <-time.After(time.Second):
			}
		}
	})
}

func newIncarnation() group.Incarnation {
	var b [8]byte
	rand.Read(b[:])
	return group.Incarnation(hex.EncodeToString(b[:]))
}

// step passes an event to the engine and executes the resulting actions.
func (r *Runner) step(ev group.Event) {
	if r.left {
		return
	}
	actions := r.engine.Step(r.cfg.Clock(), ev)
	holds := r.engine.Holds()
	r.holds.Store(&holds)
	for _, a := range actions {
		r.do(a)
	}
	s := r.engine.Status()
	seen := s
	seen.Read = 0
	seen.Gateways = append([]group.GatewayStatus(nil), s.Gateways...)
	for i := range seen.Gateways {
		seen.Gateways[i].Beat.Count, seen.Gateways[i].Beat.Loads = 0, nil
	}
	if !reflect.DeepEqual(seen, r.last) {
		r.last = seen
		r.cfg.Changed(s)
	}
}

func (r *Runner) do(a group.Action) {
	switch a := a.(type) {
	case group.Get:
		r.get(a)
	case group.Txn:
		r.txn(a)
	case group.Fence:
		r.fence(a)
	case group.Serve:
		r.serve(a)
	case group.Drain:
		r.drain(a)
	case group.Stop:
		r.stop(a)
	case group.Extend:
		r.cfg.Target.Extend(a.Until)
	case group.Rejoin:
		r.cfg.Alarm(group.Alarm{Kind: group.AlarmRejoined, Gateway: r.cfg.Gateway.Name, Text: a.Why + "; it rejoins the group"})
		r.rejoin()
	case group.Left:
		r.left = true
	case group.Took:
		r.cfg.Took(a)
	case group.Alarm:
		r.cfg.Alarm(a)
	case group.Answer:
		if answer := r.answers[a.Token]; answer != nil {
			answer <- a.Err
			delete(r.answers, a.Token)
		}
	}
}

func (r *Runner) get(a group.Get) {
	r.spawn(func() {
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.CallTimeout)
		defer cancel()
		s, err := r.cfg.Store.Get(ctx, a.Prefix)
		r.post(func() { r.step(group.Got{Token: a.Token, Snapshot: s, Err: err}) })
	})
}

// txn executes a transaction, also one that a gateway began before it left.
func (r *Runner) txn(a group.Txn) {
	r.calls.Add(1)
	r.spawn(func() {
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.CallTimeout)
		defer cancel()
		a.Txn.Urgent = true // CallTimeout is short
		result, err := r.cfg.Store.Txn(ctx, a.Txn)
		r.calls.Done()
		r.post(func() { r.step(group.Committed{Token: a.Token, Result: result, Err: err}) })
	})
}

// fence passes the result to the incarnation that requested it.
func (r *Runner) fence(a group.Fence) {
	life := r.life
	r.spawn(func() {
		ctx, cancel := context.WithTimeout(life, r.cfg.FenceTimeout)
		defer cancel()
		err := r.cfg.Target.Fence(ctx, a)
		r.during(life, group.FenceResult{Incarnation: a.Incarnation, Err: err})
	})
}

// during passes an event to the engine unless the incarnation has ended.
func (r *Runner) during(life context.Context, ev group.Event) {
	r.post(func() {
		if life.Err() == nil {
			r.step(ev)
		}
	})
}

// rejoin ends the incarnation and begins another one.
func (r *Runner) rejoin() {
	r.end()
	jobs := r.jobs
	r.jobs = map[group.ID]*job{}
	r.open(func() {
		for _, j := range jobs {
			<-j.done
		}
		r.cfg.Target.Close()
	})
}

// Hold returns what a transaction must compare so that it is executed only while the gateway owns a group. It returns
// false if the gateway does not own the group, as far as it knows. It does not block.
func (r *Runner) Hold(id group.ID) (group.Hold, bool) {
	h, ok := (*r.holds.Load())[id]
	return h, ok
}
