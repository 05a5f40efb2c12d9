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

// Bounds of the back-off.
const (
	firstWait  = time.Second
	longWait   = 30 * time.Second // of a namespace
	longShared = 5 * time.Second  // of a namespace at a gateway: another one is about to close its store
	longListen = 5 * time.Second  // of a listener, which is all that some hosts have
)

// stillFor is for how long a file that is waited for must not have grown to be opened.
const stillFor = 500 * time.Millisecond

// A wait is a namespace whose file or device is not there, or not right, or whose
// reservations cannot be read. It belongs to the Manager's mutex.
type wait struct {
	namespace *config.Namespace
	announced bool // to hosts, which keep the disk that they had of it
	why       string
	full      bool // for want of space
	since     time.Time
	cancel    context.CancelFunc
}

// await looks for a namespace's store again and again. Called with mu held.
func (m *Manager) await(s *target.Subsystem, at namespaceKey, n *config.Namespace, why error) {
	err := s.AwaitNamespace(awayConfig(m, at.nqn, n))
	if err != nil { // its identifiers are another's, which is likely why it waits
		m.log.Warn("hosts are not notified of a namespace that waits", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid), zap.Error(err))
	}
	m.waiting[at] = &wait{namespace: n, announced: err == nil, since: time.Now(), cancel: again(m, func(ctx context.Context) bool { return m.tryAgain(ctx, at) })}
	m.still(at, why)
}

// again calls try, with a back-off, until that reports that it is done or cancel is called.
// Called with mu held.
func again(m *Manager, try func(context.Context) bool) (cancel context.CancelFunc) {
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

// still notes why a namespace waits, and says it where that is news. Called with mu held.
func (m *Manager) still(at namespaceKey, why error) {
	w := m.waiting[at]
	full := errors.Is(why, backend.ErrNoSpace)
	same := w.why == why.Error() || full && w.full // how much is free is another number each time
	w.why, w.full = why.Error(), full
	if same {
		return
	}
	note(m, events.Store, events.Warning, at.event(), "namespace waits for what it exports: "+w.why)
	m.log.Warn("namespace waits for what it exports", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid),
		zap.String("export", exportName(w.namespace)), zap.String("why", w.why),
		zap.String("remedy", "make it what it was; or nvmeof namespace remove"))
}

// tryAgain reports whether the waiting is over.
func (m *Manager) tryAgain(ctx context.Context, at namespaceKey) bool {
	m.mu.Lock()
	var n *config.Namespace // a change may make it another meanwhile
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

// awaitCopy waits while a file grows: a namespace is as long as its file when that is opened,
// and a file that somebody copies to its place is not whole yet.
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

// came has a store that took long to open used by the namespace that waits for it, or else
// closes it. Nothing else is done for its path meanwhile.
func (m *Manager) came(key storeKey, h *heldStore) {
	if !m.adopt(key, h) {
		closedUnused(m, h, h.close())
	}
}

// closedUnused notes what went wrong as something was closed that had been opened in vain.
func closedUnused(m *Manager, h *heldStore, err error) {
	if err != nil {
		m.log.Warn("closing what is not used after all", zap.String("export", exportName(h.as)), zap.Error(err))
	}
}

// adopt reports whether a namespace waits for a store, which it then has.
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

// awaits finds a namespace that waits, and has what was opened with the options of another. Called
// with mu held.
func awaits(m *Manager, key storeKey, as *config.Namespace) (namespaceKey, bool) {
	for at, w := range m.waiting {
		if keyOf(at.nqn, w.namespace) == key && w.namespace.SameStore(as) {
			return at, true
		}
	}
	return namespaceKey{}, false
}

var errGivenBack = errors.New("its ANA group is not served by this target")

// try adds a namespace that waits, and reports whether that is over. Called with mu held.
func (m *Manager) try(at namespaceKey) bool {
	w := m.waiting[at]
	s, err := m.subsystem(at.nqn)
	switch {
	case err != nil:
	case isForeign(m, w.namespace): // it is being given back, and what is added now nobody would close
		err = errGivenBack
	default:
		err = m.addNamespace(s, at.nqn, w.namespace)
	}
	if s != nil {
		// A store that was opened and is not used is not kept: its file may be another the next time.
		if err := m.stores.settle(); err != nil {
			m.log.Warn("closing what is not used after all", zap.String("export", exportName(w.namespace)), zap.Error(err))
		}
	}
	if err != nil {
		m.still(at, err)
		return false
	}
	note(m, events.Store, events.Info, at.event(), "what the namespace exports is there: "+exportName(w.namespace))
	m.log.Info("namespace is there", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid),
		zap.String("export", exportName(w.namespace)), zap.Duration("after", time.Since(w.since)))
	m.forget(at)
	return true
}

// forget ends waiting and reports whether there was any. Called with mu held.
func (m *Manager) forget(at namespaceKey) bool {
	w := m.waiting[at]
	if w == nil {
		return false
	}
	w.cancel()
	delete(m.waiting, at)
	return true
}

// backoff calls try after first, twice that, and so on, at the longest after most, until it
// reports that it is done or the context ends.
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
