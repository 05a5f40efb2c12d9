package control

import (
	"context"
	"errors"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// Intervals between retries.
const (
	firstWait  = time.Second
	longWait   = 30 * time.Second // maximum for a namespace
	longShared = 5 * time.Second  // maximum for a namespace at a gateway: another one is about to close its store
	longListen = 5 * time.Second  // maximum for a listener, which may be the only one of some hosts
)

// stillFor is how long a file must not have grown before it is opened.
const stillFor = 500 * time.Millisecond

// A wait is a namespace whose store is missing or faulty, or whose reservations cannot be read. The Manager's mutex
// guards it.
type wait struct {
	namespace *config.Namespace
	announced bool // hosts know it, and keep their disk
	why       string
	full      bool // there is no space for it
	since     time.Time
	cancel    context.CancelFunc
}

// await retries adding a namespace until it succeeds. The caller holds mu.
func (m *Manager) await(s *target.Subsystem, at namespaceKey, n *config.Namespace, why error) {
	err := s.AwaitNamespace(awayConfig(m, at.nqn, n))
	if err != nil { // another namespace has its identifiers, which is probably why it waits
		m.log.Warn("hosts could not be notified of a namespace that waits", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid), zap.Error(err))
	}
	m.waiting[at] = &wait{namespace: n, announced: err == nil, since: time.Now(), cancel: retry(m, func(ctx context.Context) bool { return m.tryAgain(ctx, at) })}
	m.keepWaiting(at, why)
}

// retry calls try repeatedly, with increasing intervals, until it returns true or cancel is called. The caller
// holds mu.
func retry(m *Manager, try func(context.Context) bool) (cancel context.CancelFunc) {
	ctx, cancel := context.WithCancel(m.context)
	long := longWait
	if m.cfg.Gateway != nil {
		long = longShared
	}
	m.tasks.Go(func() { // ends when what is waited for is there or is forgotten, or at Close
		backoff(ctx, m.firstWait, long, func() bool { return try(ctx) })
	})
	return cancel
}

// keepWaiting records why a namespace waits, and reports that if it has changed. The caller holds mu.
func (m *Manager) keepWaiting(at namespaceKey, why error) {
	w := m.waiting[at]
	full := errors.Is(why, backend.ErrNoSpace)
	same := w.why == why.Error() || full && w.full // the amount of free space differs each time
	w.why, w.full = why.Error(), full
	if same {
		return
	}
	note(m, events.Store, events.Warning, at.event(), "namespace waits for its store: "+w.why)
	m.log.Warn("namespace waits for its store", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid),
		zap.String("export", exportName(w.namespace)), zap.String("why", w.why),
		zap.String("remedy", "correct that; or nvmeof namespace remove"))
}

// tryAgain retries adding a namespace. It reports whether no retry is needed.
func (m *Manager) tryAgain(ctx context.Context, at namespaceKey) bool {
	m.mu.Lock()
	var n *config.Namespace // a change may replace it meanwhile
	if w := m.waiting[at]; w != nil {
		n = w.namespace
	}
	m.mu.Unlock()
	if n == nil {
		return true
	}
	if n.File != nil {
		awaitCopy(ctx, m, n.File.Path)
	}
	key := keyOf(at.nqn, n)
	a := openAhead(m, key, n)
	m.mu.Lock()
	defer m.mu.Unlock()
	defer endAhead(m, key, a)
	if m.waiting[at] == nil || ctx.Err() != nil {
		return true
	}
	m.stores.begin(m.startTimeout)
	return m.try(at)
}

// awaitCopy waits while a file grows. A namespace has the length that its file has when it is opened, and a file
// that is being copied to its place is not complete yet.
func awaitCopy(ctx context.Context, m *Manager, path config.Path) {
	for last := int64(-1); path != ""; {
		length, err := reachFor(&m.stores.reacher, m.startTimeout, path, func() (int64, error) {
			info, err := os.Stat(string(path))
			if err != nil {
				return 0, err
			}
			return info.Size(), nil
		}, nil)
		if err != nil || length == last {
			return
		}
		last = length
		select {
		case <-ctx.Done():
			return
		case <-time.After(m.stillFor):
		}
	}
}

// openedLate hands a store whose opening exceeded the time limit over to the namespace that waits for it, or closes it.
// Other calls for its path fail meanwhile.
func (m *Manager) openedLate(key storeKey, h *heldStore) {
	if !m.adopt(key, h) {
		closedUnused(m, h, h.close())
	}
}

// closedUnused logs the error of closing a store that was not used.
func closedUnused(m *Manager, h *heldStore, err error) {
	if err != nil {
		m.log.Warn("closing an unused store failed", zap.String("export", exportName(h.as)), zap.Error(err))
	}
}

// adopt hands a store over to a namespace that waits for it, and reports whether there is one.
func (m *Manager) adopt(key storeKey, h *heldStore) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.stores.held[key] != nil {
		return false
	}
	at, awaited := awaits(m, key, h.as)
	if awaited {
		m.stores.hold(key, h)
		m.stores.begin(m.startTimeout)
		m.try(at)
	}
	return awaited
}

// awaits returns a namespace that waits for a store with the options of as. The caller holds mu.
func awaits(m *Manager, key storeKey, as *config.Namespace) (namespaceKey, bool) {
	for at, w := range m.waiting {
		if keyOf(at.nqn, w.namespace) == key && w.namespace.SameStore(as) {
			return at, true
		}
	}
	return namespaceKey{}, false
}

var errGivenBack = errors.New("its ANA group is not served by this target")

// try adds a namespace that waits, and reports whether that succeeded. The caller holds mu.
func (m *Manager) try(at namespaceKey) bool {
	w := m.waiting[at]
	s, err := m.subsystem(at.nqn)
	switch {
	case err != nil:
	case isForeign(m, w.namespace): // it is being given back, and nobody would close a store that is opened now
		err = errGivenBack
	default:
		err = m.addNamespace(s, at.nqn, w.namespace)
	}
	if s != nil {
		// An unused store is not kept: there may be another file at its path next time.
		if err := m.stores.settle(); err != nil {
			m.log.Warn("closing an unused store failed", zap.String("export", exportName(w.namespace)), zap.Error(err))
		}
	}
	if err != nil {
		m.keepWaiting(at, err)
		return false
	}
	note(m, events.Store, events.Info, at.event(), "namespace is served, since its store is available: "+exportName(w.namespace))
	m.log.Info("namespace is served, since its store is available", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid),
		zap.String("export", exportName(w.namespace)), zap.Duration("after", time.Since(w.since)))
	m.forget(at)
	return true
}

// forget ends the wait of a namespace, and reports whether it waited. The caller holds mu.
func (m *Manager) forget(at namespaceKey) bool {
	w := m.waiting[at]
	if w == nil {
		return false
	}
	w.cancel()
	delete(m.waiting, at)
	return true
}

// backoff calls try after first, then after twice that, and so on up to most, until try returns true or ctx ends.
func backoff(ctx context.Context, first, most time.Duration, try func() bool) {
	for d := first; ; d = min(2*d, most) {
		t := time.NewTimer(d)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if try() {
			return
		}
	}
}
