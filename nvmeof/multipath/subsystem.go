package multipath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath/internal/decide"
)

// A Subsystem is a subsystem with the paths to it. Its methods may be called from
// any goroutine.
type Subsystem struct {
	nqn      nvmeof.NQN
	policy   atomic.Uint32 // a Policy
	event    func(Event)
	about    func(*Namespace) // Config.NamespaceEvent, or does nothing
	base     time.Time        // of the clock that requests go by
	nodes    *nodes           // nil: one node, or nobody knows
	counts   bool             // requests; see Config.Unmeasured
	most     int              // namespaces; see Config.MaxNamespaces
	keepLost bool             // see Config.KeepLost
	steps    chan struct{}    // a path was tried, since it was last read; Connect reads

	// sharing is held while memory becomes known to controllers, or is taken from them,
	// which takes no commands. It comes before mu.
	sharing sync.Mutex
	buffers map[*Buffers]struct{} // under sharing

	mu         sync.Mutex // guards what follows and what says so; held for moments only
	paths      []*Path
	namespaces map[*Namespace]struct{}
	past       map[capsule.NSID]*NamespaceMeasures // of namespaces that are closed; nil: none
	added      int                                 // paths, ever
	closed     bool
}

// Connect connects to a subsystem over its paths. It returns when one of them is live and the
// others have been tried once, or a second later; those go on trying, whatever the result of the
// first attempt. If none becomes live, it returns the errors of all paths when each was tried once,
// or, with [Config].Wait, when each is refused or given up. ctx bounds the wait.
func Connect(ctx context.Context, cfg Config) (*Subsystem, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Subsystem{
		nqn: cfg.NQN, event: cfg.Event, about: cfg.NamespaceEvent, base: time.Now(), counts: !cfg.Unmeasured, steps: make(chan struct{}, 1),
		most: cmp.Or(cfg.MaxNamespaces, nvmeof.MaxNamespaces), keepLost: cfg.KeepLost,
		buffers: map[*Buffers]struct{}{}, namespaces: map[*Namespace]struct{}{},
	}
	s.nodes = loadNodes(os.DirFS("/sys"))
	s.policy.Store(uint32(cfg.Policy))
	if s.about == nil {
		s.about = func(*Namespace) {}
	}
	for _, c := range cfg.Paths {
		if _, err := s.add(c); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if err := s.firstTry(ctx, cfg.Wait); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// add starts a path.
func (s *Subsystem) add(c PathConfig) (*Path, error) {
	c, err := c.complete(s.nqn)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case len(s.paths) == MaxPaths:
		return nil, fmt.Errorf("multipath: at most %d paths", MaxPaths)
	}
	for _, p := range s.paths {
		if err := c.sameHost(&p.cfg); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := newPath(s, c)
	p.number, s.added = s.added, s.added+1
	p.end = cancel
	s.paths = append(s.paths, p)
	go p.run(ctx) // owned by the path: it ends after Delete or Close, or when the path is dead
	return p, nil
}

// othersTime is how long Connect waits for the paths that do not answer when one is live:
// those that do answer, be it to refuse, have done so by then.
const othersTime = time.Second

// firstTry waits until a path is live, and a little for the others, or until there is
// nothing to wait for.
func (s *Subsystem) firstTry(ctx context.Context, patient bool) error {
	paths := s.Paths()
	var others <-chan time.Time // nil until a path is live
	for {
		live, untried, hopeful, err := s.tally(paths)
		switch {
		case live && untried == 0:
			return nil
		case live:
			others = cmp.Or(others, time.After(othersTime))
		case untried == 0 && (!patient || hopeful == 0):
			return err
		}
		select {
		case <-s.steps:
		case <-others:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("multipath: %w; no answer from %s", ctx.Err(), silent(paths))
		}
	}
}

// tally counts: whether a path is live, or was, how many were not tried yet, how many may
// become live without anybody's doing, and the errors of all.
func (s *Subsystem) tally(paths []*Path) (live bool, untried, hopeful int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, p := range paths {
		switch state, _, why := p.life.State(); {
		case state == StateLive, state == StateLost, p.life.Reconnects() > 0:
			live = true
		case state == StateConnecting && p.life.Attempts() == 0:
			untried++
		default:
			errs = append(errs, why)
			if state == StateConnecting && !p.life.Refused() {
				hopeful++
			}
		}
	}
	return live, untried, hopeful, errors.Join(errs...)
}

// stepped reports to Connect that a path was tried.
func (s *Subsystem) stepped() {
	select {
	case s.steps <- struct{}{}:
	default:
	}
}

// othersLive reports whether a path other than p is live. Under mu.
func (s *Subsystem) othersLive(p *Path) bool {
	return slices.ContainsFunc(s.paths, func(o *Path) bool { return o != p && o.session != nil })
}

// silent lists the addresses of paths that never were live, with the reason if there is
// one.
func silent(paths []*Path) string {
	var all []string
	for _, p := range paths {
		text := p.addr().String()
		if err := p.Status().Err; err != nil {
			text += fmt.Sprintf(" (%v)", err)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// Add adds a path and tries it once. It returns the error of that try, nil where the
// path is live; the path is kept in either case, and tried again. Without a path the
// error is why there is none.
func (s *Subsystem) Add(ctx context.Context, c PathConfig) (*Path, error) {
	p, err := s.add(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.tried:
	case <-ctx.Done():
		p.Delete()
		return nil, ctx.Err()
	}
	return p, p.Status().Err
}

// drainTime bounds how long a path that goes is waited for by its requests.
const drainTime = 2 * time.Second

// Delete disconnects a path. Requests that are on it may end in its time; what is
// left then goes elsewhere.
func (p *Path) Delete() {
	s := p.sub
	s.mu.Lock()
	p.life.Delete(time.Now())
	s.mu.Unlock()
	s.changed(p, false)
	for end := time.Now().Add(drainTime); p.inFlight.Load() > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	p.end()
	<-p.ended
	s.mu.Lock()
	s.paths = slices.DeleteFunc(slices.Clone(s.paths), func(o *Path) bool { return o == p })
	for n := range s.namespaces {
		delete(n.writes.led, p)
	}
	others := s.publish()
	s.mu.Unlock()
	s.announce(others)
}

// Paths are the paths in the order in which they came, dead ones included.
func (s *Subsystem) Paths() []*Path {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.paths)
}

func (s *Subsystem) pathCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.paths)
}

// Policy is by which requests get to one of several paths.
func (s *Subsystem) Policy() Policy { return Policy(s.policy.Load()) }

// SetPolicy sets it for the requests that begin from now on.
func (s *Subsystem) SetPolicy(p Policy) error {
	if p > Latency {
		return fmt.Errorf("multipath: %v: unknown", p)
	}
	s.policy.Store(uint32(p))
	return nil
}

// NQN is the subsystem's name.
func (s *Subsystem) NQN() nvmeof.NQN { return s.nqn }

// Close disconnects all paths. Requests that are outstanding fail; namespaces and
// buffers are unusable afterwards.
func (s *Subsystem) Close() error {
	s.mu.Lock()
	s.closed = true
	s.publish()
	all := slices.Clone(s.paths)
	s.mu.Unlock()
	for _, p := range all {
		s.mu.Lock()
		p.life.Delete(time.Now())
		s.mu.Unlock()
		p.end()
	}
	for _, p := range all {
		<-p.ended
	}
	return s.freeBuffers()
}

// join makes a session that was just connected the path's: buffers and namespaces
// first, then the requests. Other paths may do the same, or namespaces be opened, meanwhile.
func (s *Subsystem) join(ctx context.Context, ses *session) error {
	if err := s.share(ses); err != nil {
		return err
	}
	found := map[*Namespace]identified{}
	for {
		missing, err := s.enter(ses, found)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			s.changed(ses.path, false)
			return nil
		}
		for _, n := range missing {
			f := ses.identify(ctx, n.id)
			if f.err != nil && (ses.ctrl.Err() != nil || ctx.Err() != nil) {
				return f.err
			}
			found[n] = f
		}
	}
}

// enter makes a session live if it has identified all open namespaces, and else returns
// those that are missing.
func (s *Subsystem) enter(ses *session, found map[*Namespace]identified) (missing []*Namespace, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.namespaces {
		if _, ok := found[n]; !ok {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return missing, nil
	}
	p := ses.path
	p.life.Connected(time.Now())
	if state, _, _ := p.life.State(); state != StateLive { // deleted meanwhile
		return nil, ErrClosed
	}
	for n := range s.namespaces {
		ses.spaces[n] = ses.judged(n, found[n], nil)
	}
	p.session = ses
	return nil, nil
}

// live are the sessions of all live paths.
func (s *Subsystem) live() (all []*session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.paths {
		if p.session != nil {
			all = append(all, p.session)
		}
	}
	return all
}

// reachable are those of live, or the reason why there are none.
func (s *Subsystem) reachable() ([]*session, error) {
	if all := s.live(); len(all) > 0 {
		return all, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	return nil, fmt.Errorf("multipath: no path to %s is live", s.nqn)
}

// changed wakes all that wait for a change of a path.
func (s *Subsystem) changed(p *Path, ana bool) {
	s.mu.Lock()
	others := s.publish()
	e := Event{Path: p, ANA: ana}
	e.State, _, e.Err = p.life.State()
	if e.State == StateLive || e.State == StateDeleting {
		e.Err = nil // of an earlier time
	}
	if ana && p.session != nil {
		e.Err = p.session.anaErr
	}
	now := reported{e.State, p.life.Attempts()}
	news := ana || now != p.reported
	p.reported = now
	s.mu.Unlock()
	if s.event != nil && news {
		s.event(e)
	}
	s.announce(others)
}

// publish gives each namespace a new table of its routes, and the size that all of
// them have. It returns those that are different from before. Under mu.
func (s *Subsystem) publish() (others []*Namespace) {
	for n := range s.namespaces {
		if n.measure() {
			others = append(others, n)
		}
		t := &table{closed: s.closed}
		for _, p := range s.paths {
			t.routes = append(t.routes, p.route(n))
		}
		n.publish(t)
	}
	return others
}

// route is the path as a namespace sees it. Under Subsystem.mu.
func (p *Path) route(n *Namespace) route {
	r := route{path: p}
	var until time.Time
	r.state, r.since, r.err = p.life.State()
	if until, r.hope = p.life.Hope(); !until.IsZero() {
		r.hopeUntil = int64(until.Sub(p.sub.base))
	}
	if p.session == nil || r.state != StateLive {
		return r
	}
	r.err = nil
	a := p.session.spaces[n]
	switch {
	case a == nil:
		return r
	case a.err != nil: // a namespace that is not there may come yet
		r.err = a.err
		var mismatch *MismatchError
		r.hope = !errors.As(a.err, &mismatch) && !a.removed
		if d := p.cfg.Timers.requestTimeout(); d > 0 {
			r.hopeUntil = int64(a.since.Add(d).Sub(p.sub.base))
		}
		return r
	}
	state := p.session.state(a)
	r.attachment, r.class = a, decide.ClassOf(state)
	if r.class == decide.Unusable {
		r.err = fmt.Errorf("ANA state of namespace %d is %v", n.id, state)
		r.hope = true
	}
	if state != capsule.ANAPersistentLoss {
		a.lost = time.Time{}
		return r
	}
	// The paths' logs are read one after the other: where a group moves, all may say so for
	// a moment.
	if a.lost.IsZero() {
		a.lost = time.Now()
	}
	r.hopeUntil = int64(a.lost.Add(p.session.transition()).Sub(p.sub.base))
	return r
}

// now is the time on the clock that requests go by.
func (s *Subsystem) now() int64 { return int64(time.Since(s.base)) }
