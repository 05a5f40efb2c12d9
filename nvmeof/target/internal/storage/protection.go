package storage

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A protection is the write protection of a namespace (NVMe base 2.0, 8.12), which hosts set.
type protection struct {
	now atomic.Uint32 // the current capsule.WriteProtection; for shards

	mu      sync.Mutex // shards lock it, so nothing may block under it
	settled capsule.WriteProtection
	changes []*Protecting // under way, in order
}

// A Protecting is a change of the write protection that is under way: it is in force, but may still fail.
type Protecting struct {
	of *protection
	to capsule.WriteProtection
}

// Protection returns the state that hosts have set.
func (n *Namespace) Protection() capsule.WriteProtection {
	return capsule.WriteProtection(n.protection.now.Load())
}

// Protect sets the state of a namespace for which no host has a command under way.
func (n *Namespace) Protect(to capsule.WriteProtection) {
	p := &n.protection
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled, p.changes = to, nil
	p.now.Store(uint32(to))
}

// BeginProtect begins a change by a host, which End ends. The change is nil if the namespace has the state
// already, and no change is under way. It returns may false if only the end of the target can change the state.
func (n *Namespace) BeginProtect(to capsule.WriteProtection) (c *Protecting, may bool) {
	p := &n.protection
	p.mu.Lock()
	defer p.mu.Unlock()
	switch now := n.Protection(); {
	case now == capsule.WriteProtectedUntilOff && to != now:
		return nil, false
	case to == now && len(p.changes) == 0:
		return nil, true
	}
	c = &Protecting{p, to}
	p.changes = append(p.changes, c)
	p.now.Store(uint32(to))
	return c, true
}

// End ends the change. If the change has failed, the state becomes what it would be without it: that of the last
// change under way or, if there is none, of the last one that succeeded.
func (c *Protecting) End(ok bool) {
	p := c.of
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.changes, c)
	switch {
	case i < 0: // it has ended, or a later one has succeeded
		return
	case ok:
		p.settled, p.changes = c.to, slices.Delete(p.changes, 0, i+1)
	default:
		p.changes = slices.Delete(p.changes, i, i+1)
	}
	now := p.settled
	if last := len(p.changes) - 1; last >= 0 {
		now = p.changes[last].to
	}
	p.now.Store(uint32(now))
}
