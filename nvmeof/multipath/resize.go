package multipath

import (
	"context"
	"errors"
	"math"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

var _ backend.Resizer = (*Namespace)(nil)

// Refresh implements [backend.Resizer]: it asks every live path for the size. The
// namespace has the least of theirs, so that no request is within it and beyond the
// end of where it goes. Paths ask by themselves when their controllers say that
// something has changed.
func (n *Namespace) Refresh() (changed bool, err error) {
	before := n.Size()
	var errs []error
	for _, ses := range n.sub.live() {
		ctx, cancel := context.WithTimeout(context.Background(), connectTime)
		if err := n.sub.look(ctx, ses, n); err != nil {
			errs = append(errs, err)
		}
		cancel()
		n.sub.changed(ses.path, false)
	}
	if n.Removed() {
		return false, host.ErrRemoved
	}
	return n.Size() != before, errors.Join(errs...)
}

// Removed reports whether the live paths, of which there is at least one, all say that
// the namespace is there no more. Requests then fail with a [*NoPathError] that is a
// [host.ErrRemoved], unless a lost path may still lead to it: they wait for that. It
// can come back.
func (n *Namespace) Removed() bool { return n.removed.Load() }

// measure takes size and removal from the paths as they are now, and reports whether
// they were others. Where no path is live all stays as it was. Under Subsystem.mu.
func (n *Namespace) measure() (changed bool) {
	size, there, gone := int64(math.MaxInt64), 0, 0
	for _, p := range n.sub.paths {
		if p.session == nil {
			continue
		}
		switch a := p.session.spaces[n]; {
		case a == nil:
		case a.ns != nil:
			there++
			size = min(size, a.ns.Size())
		case a.removed:
			gone++
		}
	}
	if there > 0 {
		changed = n.size.Swap(size) != size
	}
	if there+gone > 0 {
		changed = n.removed.Swap(there == 0) != (there == 0) || changed
	}
	return changed
}

// elsewhere reports whether a path other than that to at has the namespace, or it is
// being opened: then its size is certain.
func (n *Namespace) elsewhere(at netip.AddrPort) bool {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	if _, open := n.sub.namespaces[n]; !open {
		return true
	}
	for _, p := range n.sub.paths {
		if p.session == nil || p.addr() == at {
			continue
		}
		if a := p.session.spaces[n]; a != nil && a.ns != nil {
			return true
		}
	}
	return false
}

// rescan looks at all namespaces again, after the controller said that something is
// different about its namespaces.
func (s *Subsystem) rescan(ctx context.Context, ses *session) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	// Reading the log lets the controller tell of the next change; what it says, the
	// namespaces say themselves.
	_, _ = ses.ctrl.ChangedNamespaces(ctx)
	for _, n := range s.open() {
		if s.look(ctx, ses, n) != nil && ses.ctrl.Err() != nil {
			return // it was lost
		}
	}
	s.about(nil)
}

// look makes what a session knows of a namespace what its controller says now. An
// error is one of asking; then all stays as it was.
func (s *Subsystem) look(ctx context.Context, ses *session, n *Namespace) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.mu.Lock()
	a := ses.spaces[n]
	s.mu.Unlock()
	if a != nil && a.ns != nil {
		_, err := a.ns.RefreshContext(ctx)
		if !errors.Is(err, host.ErrRemoved) {
			return err
		}
		a = &attachment{session: ses, err: err, removed: true}
	} else {
		removed := a != nil && a.removed
		var err error
		if a, err = ses.attach(ctx, n); err != nil {
			return err
		}
		a.removed = a.removed || removed && errors.Is(a.err, host.ErrRemoved)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ses.spaces[n] = a
	return nil
}

// announce tells of namespaces that are different, and has the paths look again that
// led to a namespace of another size.
func (s *Subsystem) announce(others []*Namespace) {
	for _, n := range others {
		s.rematch(n)
		s.about(n)
	}
}

func (s *Subsystem) rematch(n *Namespace) {
	for _, o := range s.live() {
		s.mu.Lock()
		a := o.spaces[n]
		s.mu.Unlock()
		if a != nil && a.err != nil && !a.removed {
			o.path.rescan.Store(true)
			o.path.readANASoon()
		}
	}
}
