//go:build verbs && cgo && linux

package verbs

import (
	"sync"
	"sync/atomic"
)

// A mailbox carries functions from any goroutine to the one that owns a completion
// queue, which looks at one atomic flag a turn.
type mailbox struct {
	full  atomic.Bool
	mu    sync.Mutex // guards funcs
	funcs []func()
}

func (m *mailbox) put(f func()) {
	m.mu.Lock()
	m.funcs = append(m.funcs, f)
	m.mu.Unlock()
	m.full.Store(true)
}

// run executes what has arrived, in order, and reports whether that was anything.
func (m *mailbox) run() bool {
	if !m.full.Load() {
		return false
	}
	m.mu.Lock()
	funcs := m.funcs
	m.funcs = nil
	m.full.Store(false)
	m.mu.Unlock()
	for _, f := range funcs {
		f()
	}
	return true
}
