// Package mailbox carries functions from any goroutine to the one that owns a completion
// queue, and with it the state that they touch.
package mailbox

import (
	"sync"
	"sync/atomic"
)

// A Mailbox holds functions for its owner, who looks at one atomic flag a turn. The zero
// value is empty.
type Mailbox struct {
	full  atomic.Bool
	mu    sync.Mutex // guards funcs
	funcs []func()
}

// Put queues f. Any goroutine may call it. It does not wake the owner.
func (m *Mailbox) Put(f func()) {
	m.mu.Lock()
	m.funcs = append(m.funcs, f)
	m.mu.Unlock()
	m.full.Store(true)
}

// Full reports whether there is something to run.
func (m *Mailbox) Full() bool { return m.full.Load() }

// Run executes what has arrived, in order, and reports whether that was anything. Only the
// owner calls it.
func (m *Mailbox) Run() bool {
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
