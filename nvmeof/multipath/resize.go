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

// Refresh implements [backend.Resizer]: it reads the size through every live path. The namespace has the smallest of
// these sizes, so that no request is within it but beyond the end on its path. Paths also read the size on their own
// after a namespace event.
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
				ses.path.readANASoon() // the path repeats it until it succeeds
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

// Removed reports whether at least one path is live, and all live paths say that the namespace does not exist any more.
// Requests then fail with a [*NoPathError] that matches [host.ErrRemoved], unless a lost path may still lead to the
// namespace: then they wait for that path. The namespace can come back.
func (n *Namespace) Removed() bool { return n.removed.Load() }

// Err returns why no live path leads to the namespace: it was removed or replaced, it does not match, or a controller
// did not report what it is. It returns nil if a live path leads to it, whatever its ANA state, and if no path is live.
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

// measure updates size, removed and readOnly from the live paths. It reports whether any of them changed, or writes
// were lost. If no path is live, nothing changes. Subsystem.mu must be held.
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

// isOpen reports whether the opening of the namespace is complete. Subsystem.mu must be held.
func (n *Namespace) isOpen() bool {
	_, open := n.sub.namespaces[n]
	return open
}

// elsewhere reports whether a path other than that to at has the namespace, or it is still being opened: then its size
// is certain. Subsystem.mu must be held.
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

// rescan identifies namespaces again: all of them after a namespace event of the controller, otherwise those in doubt.
func (s *Subsystem) rescan(ctx context.Context, ses *session, all bool) {
	if all {
		// Reading the log re-arms the event. Its content is not needed, since all open namespaces are identified
		// anyway.
		ctx, cancel := context.WithTimeout(ctx, connectTime)
		if _, err := ses.ctrl.Logs().ChangedNamespaces(ctx); err != nil && !forGood(err) {
			ses.path.rescan.Store(true)
		}
		cancel()
	}
	for _, n := range s.toIdentify(ses, all) {
		one, cancel := context.WithTimeout(ctx, connectTime)
		_ = s.look(one, ses, n) // the attachment keeps the error
		cancel()
		if ses.ctrl.Err() != nil || ctx.Err() != nil {
			return // the controller was lost
		}
	}
	if all {
		s.namespaceEvent(nil)
	}
}

// forGood reports whether a command will fail again if it is repeated: because of Do Not Retry, or because the log page
// does not exist.
func forGood(err error) bool {
	var status *host.StatusError
	return errors.As(err, &status) && (status.Status.DNR() || status.Status.Code() == capsule.StatusInvalidLogPage)
}

// toIdentify returns the open namespaces that a session must identify again, or all open namespaces.
func (s *Subsystem) toIdentify(ses *session, all bool) (some []*Namespace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all {
		ses.scans++ // Namespace.open notices it if it missed this scan
	}
	for n := range s.namespaces {
		if a := ses.spaces[n]; all || a != nil && (a.unseen || a.doubt.Load()) {
			some = append(some, n)
		}
	}
	return some
}

// look identifies a namespace again on a session. If that fails, which is the error, the session does not use the
// namespace until it succeeds. A session identifies one namespace at a time, so that the latest answer counts.
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

// lookAt is look for attachment was, which has no requests in flight; nil for none. It does nothing, and returns done =
// false, if the session has another attachment meanwhile.
func (s *Subsystem) lookAt(ctx context.Context, ses *session, n *Namespace, was *attachment) (done bool, err error) {
	if err := ses.looking.lock(ctx, ses.ctrl); err != nil {
		ses.path.rescan.Store(true) // this check must be repeated
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
		was.ns.Suspend() // requests that hold did not wait for may not have been sent yet
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

// announce reports namespaces that have changed, and makes paths check again that led to a namespace of another size.
func (s *Subsystem) announce(others []*Namespace) {
	for _, n := range others {
		s.rematch(n)
		s.namespaceEvent(n)
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
