package multipath

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"sync"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

var _ backend.Resizer = (*Namespace)(nil)

// Refresh implements [backend.Resizer]: it reads the size through every live path. The
// namespace has the least of theirs, so that no request is within it and beyond the
// end of where it goes. Paths read it by themselves when their controllers say that
// something has changed.
func (n *Namespace) Refresh() (changed bool, err error) {
	if n.table.Load().closed {
		return false, ErrClosed
	}
	before, live := n.Size(), n.sub.live()
	errs := make([]error, len(live))
	var wait sync.WaitGroup
	for i, ses := range live {
		wait.Go(func() { // ends when the controller has answered, or is lost
			ctx, cancel := context.WithTimeout(context.Background(), connectTime)
			defer cancel()
			if errs[i] = n.sub.look(ctx, ses, n); errs[i] != nil {
				ses.path.readANASoon() // it repeats that until it succeeds
			}
			n.sub.changed(ses.path, false)
		})
	}
	wait.Wait()
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

// Err is why no live path leads to the namespace: it was removed or replaced, it does not match, or
// a controller did not report what it is. It is nil if one does, or will when its ANA state allows
// it, and if no path is live.
func (n *Namespace) Err() error {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	var errs []error
	for _, p := range n.sub.paths {
		if p.session == nil {
			continue
		}
		a := p.session.spaces[n]
		if a == nil || a.ns != nil {
			return nil
		}
		errs = append(errs, a.err)
	}
	return errors.Join(errs...)
}

// measure takes size, removal, and whether hosts may write from the paths as they are now, and reports
// whether they were others, or writes were lost. Where no path is live all stays as it was. Under Subsystem.mu.
func (n *Namespace) measure() (changed bool) {
	size, there, gone, readOnly := int64(math.MaxInt64), 0, 0, false
	for _, p := range n.sub.paths {
		if p.session == nil {
			continue
		}
		switch a := p.session.spaces[n]; {
		case a == nil:
		case a.ns != nil:
			there++
			size = min(size, a.ns.Size())
			readOnly = readOnly || a.ns.Info().ReadOnly
		case a.removed:
			gone++
		}
	}
	if there > 0 {
		changed = n.size.Swap(size) != size
		changed = n.readOnly.Swap(readOnly) != readOnly || changed
	}
	if losses := n.writes.losses.Load(); losses != n.writes.announced {
		n.writes.announced, changed = losses, true
	}
	if there+gone > 0 {
		changed = n.removed.Swap(there == 0) != (there == 0) || changed
	}
	return changed
}

// isOpen reports whether the namespace is more than being opened. Under Subsystem.mu.
func (n *Namespace) isOpen() bool {
	_, open := n.sub.namespaces[n]
	return open
}

// elsewhere reports whether a path other than that to at has the namespace, or it is
// being opened: then its size is certain. Under Subsystem.mu.
func (n *Namespace) elsewhere(at netip.AddrPort) bool {
	if !n.isOpen() {
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

// rescan looks at namespaces again: at all of them after the controller said that
// something is different about its namespaces, and else at those that are in doubt.
func (s *Subsystem) rescan(ctx context.Context, ses *session, all bool) {
	if all {
		// Reading the log unmasks the event of the next change; what it says, the
		// namespaces say themselves.
		ctx, cancel := context.WithTimeout(ctx, connectTime)
		if _, err := ses.ctrl.Logs().ChangedNamespaces(ctx); err != nil && !forGood(err) {
			ses.path.rescan.Store(true)
		}
		cancel()
	}
	for _, n := range s.doubtful(ses, all) {
		one, cancel := context.WithTimeout(ctx, connectTime)
		_ = s.look(one, ses, n) // what is wrong is the attachment's
		cancel()
		if ses.ctrl.Err() != nil || ctx.Err() != nil {
			return // it was lost
		}
	}
	if all {
		s.about(nil)
	}
}

// forGood reports whether a command fails again if it is sent again: with Do Not Retry, or for a log that there
// is not.
func forGood(err error) bool {
	var status *host.StatusError
	return errors.As(err, &status) && (status.Status.DNR() || status.Status.Code() == capsule.StatusInvalidLogPage)
}

// doubtful are the open namespaces, or those of them of which a session does not know
// what they are.
func (s *Subsystem) doubtful(ses *session, all bool) (some []*Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all {
		ses.scans++ // a namespace that is being opened is missing: see Namespace.open
	}
	for n := range s.namespaces {
		if a := ses.spaces[n]; all || a != nil && (a.unseen || a.doubt.Load()) {
			some = append(some, n)
		}
	}
	return some
}

// look makes what a session knows of a namespace what its controller says now. Where it
// does not say it, which is the error, the namespace is not used there until it does. A
// session looks at one namespace at a time, so that what its controller says last counts.
func (s *Subsystem) look(ctx context.Context, ses *session, n *Namespace) error {
	for {
		was := s.attachment(ses, n)
		release := func() {}
		if was != nil && was.ns != nil {
			release = was.hold(ctx)
		}
		done, err := s.lookAt(ctx, ses, n, was)
		release()
		n.wake()
		if done {
			return err
		}
	}
}

func (s *Subsystem) attachment(ses *session, n *Namespace) *attachment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ses.spaces[n]
}

// lookAt is look for an attachment on which nothing is on its way, nil for none. It does
// nothing where there is another one meanwhile.
func (s *Subsystem) lookAt(ctx context.Context, ses *session, n *Namespace, was *attachment) (done bool, err error) {
	if err := ses.looking.lock(ctx, ses.ctrl); err != nil {
		ses.path.rescan.Store(true) // what this would have found is yet to be
		ses.path.readANASoon()
		return true, err
	}
	defer ses.looking.unlock()
	if s.attachment(ses, n) != was {
		return false, nil
	}
	var f identified
	there := was != nil && was.ns != nil
	if there {
		was.doubt.Store(false)
		was.ns.Suspend() // what hold did not wait for to the end may not have been sent
		if _, f.err = was.ns.RefreshContext(ctx); f.err == nil {
			return true, nil
		}
	} else {
		f = ses.identify(ctx, n.id)
	}
	if f.err != nil && (ses.ctrl.Err() != nil || !there && ctx.Err() != nil) {
		return true, f.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := &attachment{session: ses}
	if there {
		now.fail(f.err, true, was)
	} else {
		now = ses.judged(n, f, was)
	}
	if _, open := s.namespaces[n]; open {
		ses.spaces[n] = now
	}
	if now.unseen {
		err = now.err
	}
	return true, err
}

// announce reports namespaces that are different, and has the paths look again that
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
