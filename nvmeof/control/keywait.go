package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/events"
)

// A hostKey identifies a host of a subsystem.
type hostKey struct{ nqn, host nvmeof.NQN }

func (k hostKey) String() string { return fmt.Sprintf("host %s of %s", k.host, k.nqn) }

// A keyWait is a host whose key cannot be read. A host that has had no key since the start is refused for now;
// others keep the previous key. The Manager's mutex guards it.
type keyWait struct {
	host   *config.Host
	keeps  bool // it has a previous key
	why    string
	since  time.Time
	cancel context.CancelFunc
}

// awaitKey retries reading a host's key until it succeeds. keeps says that the host has a previous one. The caller
// holds mu.
func awaitKey(m *Manager, at hostKey, h *config.Host, keeps bool, why error) {
	w := &keyWait{host: h, keeps: keeps, since: time.Now()}
	w.cancel = retry(m, func(ctx context.Context) bool { return tryKey(ctx, m, at, w) })
	m.keyless[at] = w
	stillKeyless(m, at, why)
}

// stillKeyless records why a key cannot be read, and reports that if it has changed. The caller holds mu.
func stillKeyless(m *Manager, at hostKey, why error) {
	w := m.keyless[at]
	text := why.Error()
	if w.keeps {
		text += "; the previous key is kept"
	}
	if w.why == text {
		return
	}
	w.why = text
	message := "host cannot connect until its key can be read"
	if w.keeps {
		message = "key cannot be read again"
	}
	note(m, events.Change, events.Warning, at.event(), message+": "+w.why)
	m.log.Warn(message, zap.String("subsystem", string(at.nqn)), zap.String("host", string(at.host)),
		zap.String("why", w.why), zap.String("remedy", "restore the file; or nvmeof key set, or nvmeof host remove"))
}

// tryKey retries reading a key. It reports whether no retry is needed. It reads the file without mu, which a pipe
// or a file system that hangs would block.
func tryKey(ctx context.Context, m *Manager, at hostKey, w *keyWait) bool {
	c, doubts, why := m.hostConfig(w.host)
	logDoubts(m, doubts)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keyless[at] != w || ctx.Err() != nil {
		return true
	}
	if s, err := m.subsystem(at.nqn); why == nil {
		if why = err; err == nil {
			why = s.SetHost(c)
		}
	}
	if why != nil {
		stillKeyless(m, at, why)
		return false
	}
	note(m, events.Change, events.Info, at.event(), "key of a host can be read again")
	m.log.Info("key of a host can be read again", zap.String("subsystem", string(at.nqn)), zap.String("host", string(at.host)),
		zap.Duration("after", time.Since(w.since)))
	forgetKey(m, at)
	return true
}

// forgetKey ends the wait for a key, if there is one. The caller holds mu.
func forgetKey(m *Manager, at hostKey) {
	if w := m.keyless[at]; w != nil {
		w.cancel()
		delete(m.keyless, at)
	}
}

// RereadKeys reads the key files of all hosts again, and returns how many hosts have a key that was read. A host
// whose key cannot be read keeps the previous one, and its file is tried again later; the error names such hosts.
// Connections are not affected: a new key is used at the next authentication.
func (m *Manager) RereadKeys() (hosts int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, ErrClosed
	}
	m.stores.begin(m.changeTimeout)
	var unread []error
	for _, d := range m.doc.Subsystems {
		s, err := m.subsystem(d.NQN)
		if err != nil {
			return hosts, err
		}
		for _, h := range d.Hosts {
			if h.KeyFile == "" {
				continue
			}
			c, doubts, err := m.hostConfig(h)
			logDoubts(m, doubts)
			if err != nil {
				unread = append(unread, err)
				if at := (hostKey{d.NQN, h.NQN}); m.keyless[at] != nil {
					stillKeyless(m, at, err)
				} else {
					awaitKey(m, at, h, true, err)
				}
				continue
			}
			if err := s.SetHost(c); err != nil {
				return hosts, err
			}
			forgetKey(m, hostKey{d.NQN, h.NQN})
			hosts++
		}
	}
	note(m, events.Change, events.Info, events.Event{}, fmt.Sprintf("keys of %d hosts were read again", hosts))
	m.log.Info("keys were read again", zap.Int("hosts", hosts), zap.Int("unreadable", len(unread)))
	if len(unread) > 0 {
		return hosts, &unreadError{hosts, errors.Join(unread...)}
	}
	return hosts, nil
}
