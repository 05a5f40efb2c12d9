// Package mailbox passes functions from any goroutine to the one that owns a completion queue and the state that the
// functions access.
package mailbox

import (
	"sync"
	"sync/atomic"
)

// A Mailbox holds functions for its owner, which checks one atomic flag per turn. The zero value is empty.
type Mailbox struct {
	full  atomic.Bool
	mu    sync.Mutex // guards funcs
	funcs []func()
}

// Put queues f. It may be called from any goroutine. It does not wake the owner.
func (m *Mailbox) Put(f func()) {
	m.mu.Lock()
	m.funcs = append(m.funcs, f)
	m.mu.Unlock()
	m.full.Store(true)
}

// Full reports whether there are functions to run.
func (m *Mailbox) Full() bool { return m.full.Load() }

// Run runs the queued functions, in order, and reports whether there were any. Only the owner may call it.
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
