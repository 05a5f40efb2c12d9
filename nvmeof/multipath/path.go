package multipath

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath/internal/decide"
)

// A Path is one way to reach a subsystem: a controller, or the attempts to connect one. Its methods may be called from
// any goroutine.
type Path struct {
	sub    *Subsystem
	number int // in the order in which paths were added; constant
	cfg    PathConfig
	poke   chan struct{} // signals that the ANA log must be read

	rescan atomic.Bool // the list of changed namespaces must be read too

	random *rand.Rand // for the pauses between attempts; owned by run

	end   context.CancelFunc
	ended chan struct{} // closed when run has returned
	tried chan struct{} // closed when the first attempt has completed

	// Guarded by Subsystem.mu; written by run, except by Delete.
	life     decide.Life
	session  *session   // nil unless live
	sessions []*session // sessions with whose controllers buffers are registered
	reported reported
	losses   map[string]uint64 // of the controller, by reason
	failures map[string]uint64 // of connection attempts, by reason

	inFlight  atomic.Int64
	completed atomic.Uint64
	errors    atomic.Uint64 // requests that ended with an error here, whether retried or not
	latency   atomic.Int64  // smoothed, nanoseconds
}

// reported is the state in the last event.
type reported struct {
	state    State
	attempts int
}

func newPath(s *Subsystem, cfg PathConfig) *Path {
	var seed [16]byte
	crand.Read(seed[:]) // never fails, and tests can make it deterministic
	return &Path{
		random: rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:]))),
		sub:    s, cfg: cfg, poke: make(chan struct{}, 1), ended: make(chan struct{}), tried: make(chan struct{}),
		life: decide.NewLife(cfg.Timers.decided(), time.Now()),
	}
}

// addr returns the controller's address.
func (c *PathConfig) addr() netip.AddrPort {
	return netip.AddrPortFrom(c.Options.Traddr, c.Options.Trsvcid)
}

func (p *Path) addr() netip.AddrPort { return p.cfg.addr() }

// Addr returns the address of the path's controller.
func (p *Path) Addr() netip.AddrPort { return p.addr() }

// keepAlive returns KATO, or 0 for none.
func (p *Path) keepAlive() time.Duration {
	switch d := p.cfg.Options.KeepAliveTmo; {
	case d < 0:
		return 0
	case d > 0:
		return d
	}
	return nvmeof.DefaultKeepAlive
}

// connectTime bounds one connection attempt.
const connectTime = 30 * time.Second

// run connects, disconnects and watches the path's controllers. No other goroutine does.
func (p *Path) run(ctx context.Context) {
	defer close(p.ended)
	first := true
	for {
		p.sub.mu.Lock()
		spared := p.spare(time.Now())
		do := p.life.Due(time.Now())
		wake, ok := p.life.Wake()
		p.sub.mu.Unlock()
		switch do {
		case decide.End:
			p.sub.changed(p, false) // it may just have been given up
			if first {
				close(p.tried)
			}
			p.sub.stepped()
			return
		case decide.Connect:
			s := p.connect(ctx)
			if first {
				close(p.tried)
				first = false
			}
			p.sub.stepped()
			if s != nil {
				p.live(ctx, s)
			}
		default:
			if !ok {
				return // not reached: live handles a live path
			}
			d := time.Until(wake)
			if spared {
				d = max(d, sparedLook)
			}
			sleep(ctx, d)
		}
	}
}

// sparedLook is the minimum interval at which a path checks whether others are live, if it would be given up otherwise.
const sparedLook = 10 * time.Millisecond

// spare keeps the path from being given up while another one is live, and reports whether one is. Subsystem.mu must be
// held.
func (p *Path) spare(now time.Time) bool {
	others := p.sub.othersLive(p)
	if others {
		p.life.Spare(now, p.sub.keepLost)
	}
	return others
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// connect makes one connection attempt.
func (p *Path) connect(ctx context.Context) *session {
	until := time.Now().Add(connectTime)
	p.sub.mu.Lock()
	if at, ok := p.life.Limit(); ok && at.Before(until) {
		until = at
	}
	p.sub.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	o := p.cfg.Options
	if o.Event = p.event; o.EventMask != 0 {
		o.EventMask |= capsule.EventNamespaceAttribute | capsule.EventANAChange
	}
	if p.cfg.Keys != nil {
		p.cfg.Keys(&o)
	}
	c, err := p.cfg.Host.Connect(ctx, o)
	if err == nil {
		var s *session
		if s, err = newSession(ctx, p, c); err == nil {
			if err = p.sub.join(ctx, s); err == nil {
				return s
			}
		}
		p.disconnect(c, s) // its result says less than err
	}
	p.sub.mu.Lock()
	p.spare(time.Now())
	if errors.Is(err, host.ErrClosed) { // closed by the program, so no attempt can succeed
		p.life.GiveUp(time.Now(), err)
	}
	p.life.Failed(time.Now(), err, Refused(err), p.random.Float64())
	count(&p.failures, attemptOf(err))
	p.sub.mu.Unlock()
	p.sub.changed(p, false)
	return nil
}

// Refused reports whether a failed connection attempt is expected to fail again until something is changed at the
// target or here: the target says so (Do Not Retry), or the path leads to another subsystem.
func Refused(err error) bool {
	var connect *host.ConnectError
	var status *host.StatusError
	var auth *host.AuthError
	var mismatch *MismatchError
	switch {
	case errors.As(err, &auth), errors.As(err, &mismatch), errors.Is(err, host.ErrHungUp):
		return true
	case errors.As(err, &connect) && connect.RefusedBy() == host.SideHost:
		return true
	case errors.As(err, &status):
		return status.Status.DNR()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, host.ErrClosed):
		return false
	}
	return connect == nil
}

// event handles an asynchronous event. The controller sends no other of this kind until its log page has been read.
func (p *Path) event(e capsule.AsyncEvent) {
	if e.Type == capsule.EventTypeNotice && (e.Info == capsule.NoticeANAChange || e.Info == capsule.NoticeNamespaceChanged) {
		if e.Info == capsule.NoticeNamespaceChanged {
			p.rescan.Store(true)
		}
		p.readANASoon()
	}
}

func (p *Path) readANASoon() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// The pause between two checks of the namespaces and the ANA log is restShare times as long as the last check took,
// within these bounds. So a controller that reports changes all the time does not cost more.
const (
	shortestRest = 20 * time.Millisecond
	longestRest  = 250 * time.Millisecond
	restShare    = 4
)

// rest makes such a pause, unless the controller is lost first.
func rest(ctx context.Context, s *session, took time.Duration) {
	t := time.NewTimer(min(max(restShare*took, shortestRest), longestRest))
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctrl.Done():
	case <-ctx.Done():
	}
}

// firstAgain is the pause before a namespace is identified again, or a log read again, after a failure. Each further
// pause is twice as long, up to ReconnectDelay.
const firstAgain = 100 * time.Millisecond

// disconnectTime bounds the orderly disconnect of a controller.
const disconnectTime = 5 * time.Second

// live attends to a session until it ends, and disconnects it.
func (p *Path) live(ctx context.Context, s *session) {
	err := p.attend(ctx, s)
	p.sub.mu.Lock()
	p.session = nil
	if state, _, _ := p.life.State(); state == StateLive && err != ErrClosed {
		count(&p.losses, lossOf(err))
	}
	p.life.LostController(time.Now(), err, p.random.Float64())
	p.sub.mu.Unlock()
	p.sub.changed(p, false)
	p.disconnect(s.ctrl, s)
}

// disconnect disconnects a controller, which may be lost already, and ends its session, if s is not nil.
func (p *Path) disconnect(c *host.Controller, s *session) {
	ctx, cancel := context.WithTimeout(context.Background(), disconnectTime)
	defer cancel()
	_ = c.Disconnect(ctx)
	p.sub.mu.Lock()
	p.sessions = slices.DeleteFunc(p.sessions, func(o *session) bool { return o == s })
	p.sub.mu.Unlock()
	if s != nil {
		s.settle()
		p.sub.changed(p, false) // wakes the writes that wait
	}
}

// errTransition is why a path is reconnected whose ANA state stays Change.
var errTransition = errors.New("an ANA group did not leave the state change in time (ANATT)")

// attend handles the events of a session, and returns why it ended.
func (p *Path) attend(ctx context.Context, s *session) error {
	overdue, again := time.NewTimer(0), time.NewTimer(0)
	defer overdue.Stop()
	defer again.Stop()
	pause := firstAgain
	since := p.changingSince(s, time.Time{})
	for {
		if overdue.Stop(); !since.IsZero() {
			overdue.Reset(time.Until(since.Add(s.transition())))
		}
		if again.Stop(); !p.inDoubt(s) {
			pause = firstAgain
		} else {
			again.Reset(pause)
			pause = min(2*pause, p.cfg.Timers.decided().ReconnectDelay)
		}
		late := false
		select {
		case <-s.ctrl.Done():
			return s.ctrl.Err()
		case <-ctx.Done():
			return ErrClosed
		case <-overdue.C:
			late = true // unless the event of the change was lost
		case <-again.C:
		case <-p.poke:
		}
		began := time.Now()
		p.sub.rescan(ctx, s, p.rescan.Swap(false))
		if err := p.refresh(ctx, s); err != nil {
			return err
		}
		if since = p.changingSince(s, since); late && !since.IsZero() {
			return errTransition
		}
		rest(ctx, s, time.Since(began))
	}
}

// inDoubt reports whether the controller must be asked again even without an event: a query for a namespace, the ANA
// states or the changed namespaces failed, or its response was invalid.
func (p *Path) inDoubt(s *session) bool {
	if p.rescan.Load() || len(p.sub.toIdentify(s, false)) > 0 {
		return true
	}
	p.sub.mu.Lock()
	defer p.sub.mu.Unlock()
	return s.anaErr != nil
}

// changingSince returns since when a group is in the state Change, or the zero time if none is.
func (p *Path) changingSince(s *session, since time.Time) time.Time {
	p.sub.mu.Lock()
	defer p.sub.mu.Unlock()
	switch {
	case s.ana == nil || !s.ana.Changing():
		return time.Time{}
	case since.IsZero():
		return time.Now()
	}
	return since
}

// refresh reads the ANA log again. If the controller fails the command, or the log is invalid, the states stay as they
// were.
func (p *Path) refresh(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var log *decide.ANALog
	var bad error
	if s.ctrl.Identify().CMIC&capsule.CMICANA != 0 {
		log, bad = s.readANA(ctx)
	}
	if err := s.ctrl.Err(); err != nil {
		return err
	}
	p.sub.mu.Lock()
	if s.anaErr = bad; bad == nil {
		s.ana = log
	}
	for _, a := range s.spaces {
		a.blocked.CompareAndSwap(untilANA, 0)
	}
	p.sub.mu.Unlock()
	p.sub.changed(p, true)
	return nil
}
