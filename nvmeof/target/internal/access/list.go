package access

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Host is a host that is allowed, with its configuration. It is immutable.
type Host[C any] struct {
	NQN    nvmeof.NQN
	Config C
	Rights *Rights
}

// A List lists the hosts that may connect. The zero value allows none.
type List[C any] struct {
	mu    sync.Mutex
	any   bool
	hosts map[nvmeof.NQN]*Host[C]
}

// Set adds a host, or replaces the one with its NQN.
func (l *List[C]) Set(h *Host[C]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		l.hosts = make(map[nvmeof.NQN]*Host[C])
	}
	l.hosts[h.NQN] = h
}

// Remove removes a host, and reports whether it was in the list.
func (l *List[C]) Remove(nqn nvmeof.NQN) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := l.hosts[nqn]
	delete(l.hosts, nqn)
	return found
}

// AllowAny sets whether every host is allowed, or only those that were added by Set.
func (l *List[C]) AllowAny(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.any = on
}

// Any reports whether every host is allowed.
func (l *List[C]) Any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.any
}

// Clone returns a copy of the list.
func (l *List[C]) Clone() *List[C] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &List[C]{any: l.any, hosts: maps.Clone(l.hosts)}
}

// Named returns a host that was added by Set, or nil.
func (l *List[C]) Named(nqn nvmeof.NQN) *Host[C] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts[nqn]
}

// Find returns the entry by which a host is allowed, or nil. A host that is only allowed because all hosts are has
// all rights and no configuration.
func (l *List[C]) Find(nqn nvmeof.NQN) *Host[C] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.hosts[nqn]; h != nil {
		return h
	}
	if l.any {
		return &Host[C]{NQN: nqn}
	}
	return nil
}

// All returns the hosts that were added by Set, by name.
func (l *List[C]) All() []*Host[C] {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*Host[C], 0, len(l.hosts))
	for _, h := range l.hosts {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *Host[C]) int { return cmp.Compare(a.NQN, b.NQN) })
	return out
}
