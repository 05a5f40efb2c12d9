package connections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/multipath"
	"github.com/nvmeof-go/nvmeof/nvmeof/nbd"
)

// Multipath is the Connector over package multipath: a lost controller is connected to
// again, and requests wait meanwhile, or take another path. Policy is that of subsystems
// whose paths say none.
type Multipath struct {
	Policy multipath.Policy
	// Wait has Connect wait as [multipath.Config].Wait does, and Attempt is called for each
	// attempt that fails meanwhile, from any goroutine; it may be nil.
	Wait    bool
	Attempt func(at netip.AddrPort, err error)
	// KeepLost has no path given up that is lost while another one is live, as [multipath.Config].KeepLost does.
	KeepLost bool
	// MaxNamespaces is how many namespaces of a subsystem are opened. Default nvmeof.MaxNamespaces.
	MaxNamespaces int
	// Wanted is a namespace that is opened however many the subsystem lists. 0: there is none.
	Wanted capsule.NSID
}

// Connect implements [Connector].
func (m Multipath) Connect(ctx context.Context, paths []Path, changed func()) (Subsystem, []Controller, error) {
	if len(paths) == 0 {
		return nil, nil, errors.New("no path to connect by")
	}
	most := cmp.Or(m.MaxNamespaces, nvmeof.MaxNamespaces)
	cfg := multipath.Config{
		NQN: paths[0].Options.NQN, Policy: m.Policy, Wait: m.Wait, KeepLost: m.KeepLost,
		MaxNamespaces: 2 * most, // with those that are listed no more and still in use
		Event: func(e multipath.Event) {
			if m.Attempt != nil && e.State == multipath.StateConnecting && e.Err != nil {
				m.Attempt(e.Path.Addr(), e.Err)
			}
			changed()
		},
		NamespaceEvent: func(*multipath.Namespace) { changed() },
	}
	for _, p := range paths {
		cfg.Paths = append(cfg.Paths, p.config())
		if p.Policy != "" {
			var err error
			if cfg.Policy, err = multipath.ParsePolicy(p.Policy); err != nil {
				return nil, nil, err
			}
		}
	}
	link, err := multipath.Connect(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	s := &multiSubsystem{link: link, changed: changed, most: most, wanted: m.Wanted,
		reported: map[capsule.NSID]string{}, losses: map[capsule.NSID]uint64{}}
	var all []Controller
	for i, p := range link.Paths() {
		all = append(all, &multiController{sub: s, path: p, timers: paths[i].Timers})
	}
	return s, all, nil
}

func (p *Path) config() multipath.PathConfig {
	return multipath.PathConfig{Host: p.Host, Options: p.Options, Keys: p.Keys, Timers: p.Timers}
}

// A multiSubsystem is a Subsystem of Multipath.
type multiSubsystem struct {
	link    *multipath.Subsystem
	changed func()
	most    int // namespaces
	wanted  capsule.NSID

	looking  sync.Mutex // held while namespaces are looked at; guards what follows
	open     []Namespace
	left     []backend.Store         // of namespaces that are gone, but in use
	reported map[capsule.NSID]string // of those that are listed; of 0 what is said of all
	losses   map[capsule.NSID]uint64 // of their writes that were reported
	waiting  []capsule.NSID          // never opened, since they are not ready
}

// news is an error about a namespace that was not reported the last time.
func (s *multiSubsystem) news(id capsule.NSID, err error) error {
	switch {
	case err == nil:
		delete(s.reported, id)
	case s.reported[id] == err.Error():
		return nil
	default:
		s.reported[id] = err.Error()
	}
	return err
}

// lost is an error about writes of a namespace that was not reported yet.
func (s *multiSubsystem) lost(id capsule.NSID, of backend.Store) error {
	n, ok := of.(*multipath.Namespace)
	if !ok {
		return nil
	}
	before := s.losses[id]
	if s.losses[id] = n.Losses(); s.losses[id] <= before {
		return nil
	}
	return fmt.Errorf("namespace %d: %w: its next flush fails", id, multipath.ErrWritesLost)
}

// Policy implements [Subsystem].
func (s *multiSubsystem) Policy() string { return s.link.Policy().String() }

// SetPolicy implements [Subsystem].
func (s *multiSubsystem) SetPolicy(name string) error {
	p, err := multipath.ParsePolicy(name)
	if err != nil {
		return err
	}
	return s.link.SetPolicy(p)
}

// Measure implements [Subsystem].
func (s *multiSubsystem) Measure() multipath.Measures { return s.link.Measure() }

// Close implements [Subsystem].
func (s *multiSubsystem) Close() error { return s.link.Close() }

// Add implements [Subsystem]. As with Linux, a path by which there is no way at first
// is none.
func (s *multiSubsystem) Add(ctx context.Context, p Path) (Controller, error) {
	added, err := s.link.Add(ctx, p.config())
	if err != nil {
		if added != nil {
			added.Delete()
		}
		return nil, err
	}
	c := &multiController{sub: s, path: added, timers: p.Timers}
	if p.Policy == "" {
		return c, nil
	}
	return c, s.SetPolicy(p.Policy)
}

// Namespaces implements [Subsystem]. While no path is live it is those that were: their
// requests wait.
func (s *multiSubsystem) Namespaces(ctx context.Context) ([]Namespace, error) {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.left = slices.DeleteFunc(s.left, func(b backend.Store) bool { return b.Close() == nil })
	live := func(p *multipath.Path) bool { return p.Status().State == multipath.StateLive }
	if !slices.ContainsFunc(s.link.Paths(), live) {
		return slices.Clone(s.open), nil
	}
	all, err := s.link.Namespaces(ctx)
	if err != nil {
		return slices.Clone(s.open), err
	}
	var now []Namespace
	ids, errs := s.within(all)
	s.waiting = nil
	for _, id := range ids {
		n, err := s.namespace(ctx, id)
		if n.Store == nil && errors.Is(err, host.ErrNotReady) {
			s.waiting = append(s.waiting, id)
		}
		errs = append(errs, s.news(id, err), s.lost(id, n.Store))
		if n.Store != nil {
			now = append(now, n)
		}
	}
	for _, old := range s.open {
		if !slices.ContainsFunc(now, func(n Namespace) bool { return n.Store == old.Store }) {
			s.left = append(s.left, old.Store)
		}
		if !slices.Contains(ids, old.ID) {
			errs = append(errs, fmt.Errorf("namespace %d was removed", old.ID))
		}
	}
	maps.DeleteFunc(s.losses, func(id capsule.NSID, _ uint64) bool { return !slices.Contains(ids, id) })
	maps.DeleteFunc(s.reported, func(id capsule.NSID, _ string) bool { return id != 0 && !slices.Contains(ids, id) })
	s.open = now
	return slices.Clone(now), errors.Join(errs...)
}

// A LeftOutError is that a subsystem lists more namespaces than are opened.
type LeftOutError struct{ Listed, Opened int }

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("the subsystem lists %d namespaces, but at most %[3]d are opened: %[2]d are ignored", e.Listed, e.Listed-e.Opened, e.Opened)
}

// within are as many of the namespaces that a target lists as may be open, those that are so and the one that is
// wanted first. The error is how many are left out, as news about no single one.
func (s *multiSubsystem) within(all []capsule.NSID) (ids []capsule.NSID, errs []error) {
	if len(all) <= s.most {
		return all, []error{s.news(0, nil)}
	}
	open := map[capsule.NSID]bool{s.wanted: true}
	for _, n := range s.open {
		open[n.ID] = true
	}
	room := s.most
	for _, id := range all {
		if open[id] {
			room--
		}
	}
	for _, id := range all {
		if open[id] {
			ids = append(ids, id)
		} else if room > 0 {
			ids = append(ids, id)
			room--
		}
	}
	return ids, []error{s.news(0, &LeftOutError{len(all), len(ids)})}
}

// Waiting implements [Subsystem].
func (s *multiSubsystem) Waiting() []capsule.NSID {
	s.looking.Lock()
	defer s.looking.Unlock()
	return slices.Clone(s.waiting)
}

// namespace opens a namespace, or is the one that is open already: that follows its size
// and its removal by itself. Where it was removed another may have its identifier now,
// which the error says.
func (s *multiSubsystem) namespace(ctx context.Context, id capsule.NSID) (old Namespace, err error) {
	var why error
	if i := slices.IndexFunc(s.open, func(n Namespace) bool { return n.ID == id }); i >= 0 {
		old = s.open[i]
		if open, ok := old.Store.(*multipath.Namespace); ok {
			if why = open.Err(); !open.Removed() {
				return old, why
			}
		}
	}
	n, err := s.link.Namespace(ctx, id)
	var unusable *host.UnusableError
	switch {
	case errors.As(err, &unusable):
		return Namespace{}, cmp.Or(why, err)
	case err != nil:
		return old, cmp.Or(why, err)
	}
	if old.Store != nil && old.Identifiers == n.Identifiers() && old.Store.Info() == n.Info() {
		return old, n.Close()
	}
	fresh := Namespace{ID: id, Identifiers: n.Identifiers(), Store: n, NewMemory: s.newMemory}
	use := func(ctx context.Context, fn func(*host.Namespace) error) error {
		return n.Use(ctx, multipath.Harmless, fn)
	}
	fresh.Used = func(ctx context.Context) (used int64, err error) {
		err = use(ctx, func(n *host.Namespace) (err error) {
			used, err = n.Allocated()
			return err
		})
		return used, err
	}
	fresh.Flush = n.FlushContext
	if old.Store == nil || old.Unflushed != nil && !old.Unflushed() { // else the same disk has writes that n knows nothing of
		fresh.Unflushed = n.Unflushed
	}
	return fresh, why
}

func (s *multiSubsystem) newMemory(size int) (nbd.Memory, error) {
	b, err := s.link.NewBuffers(size)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// A multiController is a path of a multiSubsystem.
type multiController struct {
	sub    *multiSubsystem
	path   *multipath.Path
	timers multipath.Timers

	mu   sync.Mutex // guards what follows
	last Status     // whose Identify and ID are those of the last controller
	gone bool
}

// errNoAnswer is why a controller is not live that was not connected to yet.
var errNoAnswer = errors.New("no answer yet")

// Status implements [Controller].
func (c *multiController) Status() Status {
	now := c.path.Status()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Identify != nil {
		c.last.ID, c.last.Identify = now.Controller, *now.Identify
	}
	st := c.last
	st.State, st.Err, st.ANA = Connecting, now.Err, now.States
	switch {
	case c.gone:
		st.State, st.Err = Dead, nil
	case now.State == multipath.StateLive:
		st.State = Live
	case now.State == multipath.StateDeleting:
		st.State, st.Err = Deleting, nil
	case now.State == multipath.StateConnecting && now.Err == nil:
		st.Err = errNoAnswer
	case now.State == multipath.StateDead:
		st.State = Dead
		if tmo := c.timers.CtrlLossTmo; tmo > 0 && now.Err != nil {
			st.Err = fmt.Errorf("not reconnected within %v: %w", tmo, now.Err)
		}
	}
	return st
}

// Disconnect implements [Controller].
func (c *multiController) Disconnect() error {
	c.path.Delete()
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	c.sub.changed()
	return nil
}
