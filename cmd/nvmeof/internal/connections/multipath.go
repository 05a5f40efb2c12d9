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

// Multipath is the Connector over package multipath: a lost controller is reconnected, and requests wait meanwhile or
// use another path. Policy applies to subsystems whose paths do not set one.
type Multipath struct {
	Policy multipath.Policy
	// Wait makes Connect wait as [multipath.Config].Wait does. Attempt, which may be nil, is called from any goroutine
	// for each failed attempt meanwhile.
	Wait    bool
	Attempt func(at netip.AddrPort, err error)
	// KeepLost keeps lost paths while another path is live, as [multipath.Config].KeepLost does.
	KeepLost bool
	// MaxNamespaces is the maximum number of namespaces of a subsystem that are opened. Default: nvmeof.MaxNamespaces.
	MaxNamespaces int
	// Wanted is a namespace that is opened even if the subsystem lists more than the maximum. 0: none.
	Wanted capsule.NSID
}

// Connect implements [Connector].
func (m Multipath) Connect(ctx context.Context, paths []Path, changed func()) (Subsystem, []Controller, error) {
	if len(paths) == 0 {
		return nil, nil, errors.New("no path to connect")
	}
	most := cmp.Or(m.MaxNamespaces, nvmeof.MaxNamespaces)
	cfg := multipath.Config{
		NQN: paths[0].Options.NQN, Policy: m.Policy, Wait: m.Wait, KeepLost: m.KeepLost,
		MaxNamespaces: 2 * most, // includes those that are no longer listed but still in use
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

// A multiSubsystem implements [Subsystem] for Multipath.
type multiSubsystem struct {
	link    *multipath.Subsystem
	changed func()
	most    int // maximum of namespaces
	wanted  capsule.NSID

	looking  sync.Mutex // held while namespaces are listed; guards the fields below
	open     []Namespace
	left     []backend.Store         // stores of removed namespaces that are still in use
	reported map[capsule.NSID]string // last error of each listed namespace; key 0: of all
	losses   map[capsule.NSID]uint64 // number of lost writes reported of each namespace
	waiting  []capsule.NSID          // never opened, because they are not ready
}

// news returns err unless it was the last one reported of the namespace.
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

// lost returns an error if the namespace has lost writes that were not reported yet.
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

// Add implements [Subsystem]. Like Linux, it does not keep a path whose first connection attempt fails.
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

// Namespaces implements [Subsystem]. While no path is live, it returns the namespaces of the last call, whose requests
// wait.
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

// A LeftOutError is returned when a subsystem lists more namespaces than are opened.
type LeftOutError struct{ Listed, Opened int }

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("the subsystem lists %d namespaces, but at most %[3]d are opened: %[2]d are ignored", e.Listed, e.Listed-e.Opened, e.Opened)
}

// within returns at most s.most of the namespaces that a target lists: those that are open and the wanted one first.
// The error, reported as news of namespace 0, says how many are left out.
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

// namespace returns the namespace if it is open, and opens it otherwise. An open namespace follows its size and its
// removal by itself. If it was removed, another one may have its NSID now, which the error says.
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
	if old.Store == nil || old.Unflushed != nil && !old.Unflushed() { // else the same disk has writes unknown to n
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

	mu   sync.Mutex // guards the fields below
	last Status     // Identify and ID are those of the last controller
	gone bool
}

// errNoAnswer is the error of a controller before its first connection attempt has ended.
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
