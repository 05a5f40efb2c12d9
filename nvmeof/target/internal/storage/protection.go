package storage

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A protection is the write protection of a namespace (NVMe base 2.0, 8.12), which hosts set.
type protection struct {
	now atomic.Uint32 // capsule.WriteProtection, in force; for shards

	mu      sync.Mutex // nothing blocks under it: shards lock it
	settled capsule.WriteProtection
	changes []*Protecting // under way, in order
}

// A Protecting is a change of the write protection that is under way: it is in force, and may fail
// yet.
type Protecting struct {
	of *protection
	to capsule.WriteProtection
}

// Protection is the state that hosts have set.
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

// BeginProtect begins a change by a host, which End ends; nil: that is the state already, for good.
// It reports false if only the end of the target changes the state.
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

// End ends the change, once. The state after one that has failed is what it is without it: that of
// the last one that is under way or, without any, of the last one that has succeeded.
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
