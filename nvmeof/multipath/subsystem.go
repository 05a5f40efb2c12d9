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

// A Subsystem is an NVM subsystem with the paths to it. Its methods may be called from any goroutine.
type Subsystem struct {
	nqn            nvmeof.NQN
	policy         atomic.Uint32 // a Policy
	event          func(Event)
	namespaceEvent func(*Namespace) // Config.NamespaceEvent, or a function that does nothing
	base           time.Time        // zero of the clock for requests
	nodes          *nodes           // nil: one node, or not known
	counts         bool             // requests are counted; see Config.Unmeasured
	maxNamespaces  int              // maximum open namespaces; see Config.MaxNamespaces
	keepLost       bool             // see Config.KeepLost
	steps          chan struct{}    // signals Connect that a path was tried

	// sharing is held while memory is registered with controllers or unregistered, which takes no commands. It is
	// locked before mu.
	sharing sync.Mutex
	buffers map[*Buffers]struct{} // guarded by sharing

	mu         sync.Mutex // guards the fields below, and those that say so; never held for long
	paths      []*Path
	namespaces map[*Namespace]struct{}
	past       map[capsule.NSID]*NamespaceMeasures // of closed namespaces; nil: none
	added      int                                 // number of paths ever added
	closed     bool
}

// Connect connects to a subsystem over its paths. It returns when one of them is live and the others have been tried
// once, or one second after the first is live. Paths that failed are tried again in the background. If none becomes
// live, it returns the errors of all paths when each was tried once, or, with [Config].Wait, when each is refused or
// given up. ctx bounds the wait.
func Connect(ctx context.Context, cfg Config) (*Subsystem, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Subsystem{
		nqn: cfg.NQN, event: cfg.Event, namespaceEvent: cfg.NamespaceEvent, base: time.Now(), counts: !cfg.Unmeasured, steps: make(chan struct{}, 1),
		maxNamespaces: cmp.Or(cfg.MaxNamespaces, nvmeof.MaxNamespaces), keepLost: cfg.KeepLost,
		buffers: map[*Buffers]struct{}{}, namespaces: map[*Namespace]struct{}{},
	}
	s.nodes = loadNodes(os.DirFS("/sys"))
	s.policy.Store(uint32(cfg.Policy))
	if s.namespaceEvent == nil {
		s.namespaceEvent = func(*Namespace) {}
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
		return nil, fmt.Errorf("multipath: too many paths: want at most %d", MaxPaths)
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

// othersTime is how long Connect waits for the other paths when one is live: targets that respond, even with a refusal,
// do so within this time.
const othersTime = time.Second

// firstTry waits until a path is live, and for othersTime for the others, or until no path can become live.
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

// tally reports whether a path is or was live, how many were not tried yet, how many may become live without
// intervention, and the errors of all.
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

// stepped signals Connect that a path was tried.
func (s *Subsystem) stepped() {
	select {
	case s.steps <- struct{}{}:
	default:
	}
}

// othersLive reports whether a path other than p is live. mu must be held.
func (s *Subsystem) othersLive(p *Path) bool {
	return slices.ContainsFunc(s.paths, func(o *Path) bool { return o != p && o.session != nil })
}

// silent lists the addresses of paths, with the reason why they are not live, if any.
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

// Add adds a path and tries to connect it once. It returns the path with the error of that attempt, or nil if the path
// is live; the path is kept in either case, and tried again. If the path cannot be added, it returns nil and the
// reason.
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

// drainTime bounds how long Delete waits for the requests of a path.
const drainTime = 2 * time.Second

// Delete disconnects a path. It waits a limited time for requests in flight on the path; the rest is sent on other
// paths.
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
		delete(n.writes.boots, p)
	}
	others := s.publish()
	s.mu.Unlock()
	s.announce(others)
}

// Paths returns the paths in the order in which they were added, including dead ones.
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

// Policy returns the policy that chooses among several paths.
func (s *Subsystem) Policy() Policy { return Policy(s.policy.Load()) }

// SetPolicy sets the policy for requests that begin from now on.
func (s *Subsystem) SetPolicy(p Policy) error {
	if p > Latency {
		return fmt.Errorf("multipath: unknown %v", p)
	}
	s.policy.Store(uint32(p))
	return nil
}

// NQN returns the subsystem's NQN.
func (s *Subsystem) NQN() nvmeof.NQN { return s.nqn }

// Close disconnects all paths. Outstanding requests fail; namespaces and buffers are unusable afterwards.
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

// join makes a just connected session the path's session: first buffers and namespaces, then requests. Other paths may
// do the same, and namespaces be opened, meanwhile.
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

// enter makes a session live if it has identified all open namespaces; otherwise it returns the missing ones.
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

// live returns the sessions of all live paths.
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

// reachable returns the sessions of all live paths, or an error if there are none.
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

// changed publishes a change of a path, and reports it if it is news.
func (s *Subsystem) changed(p *Path, ana bool) {
	s.mu.Lock()
	others := s.publish()
	e := Event{Path: p, ANA: ana}
	e.State, _, e.Err = p.life.State()
	if e.State == StateLive || e.State == StateDeleting {
		e.Err = nil // of an earlier connection
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

// publish gives each namespace a new table of routes, and updates its size. It returns the namespaces that have
// changed. mu must be held.
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

// route returns the path as seen by a namespace. Subsystem.mu must be held.
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
	case a.err != nil: // a namespace that does not exist may still appear
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
	// The paths' logs are read one after the other: while a group moves, all of them may report persistent loss for a
	// moment.
	if a.lost.IsZero() {
		a.lost = time.Now()
	}
	r.hopeUntil = int64(a.lost.Add(p.session.transition()).Sub(p.sub.base))
	return r
}

// now returns the time on the clock for requests.
func (s *Subsystem) now() int64 { return int64(time.Since(s.base)) }
