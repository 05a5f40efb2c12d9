package softroce

import (
	"sync"
	"sync/atomic"
)

// mailbox carries functions from any goroutine to the shard that owns the state
// they touch. The shard looks at one atomic flag a turn.
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

// run executes what has arrived, in order.
func (m *mailbox) run() {
	if !m.full.Load() {
		return
	}
	m.mu.Lock()
	funcs := m.funcs
	m.funcs = nil
	m.full.Store(false)
	m.mu.Unlock()
	for _, f := range funcs {
		f()
	}
}
