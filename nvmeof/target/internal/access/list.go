package access

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A Host is one host that is allowed, with its configuration. It is immutable.
type Host[C any] struct {
	NQN    nvmeof.NQN
	Config C
	Rights *Rights
}

// A List has the hosts that may connect. The zero value allows none.
type List[C any] struct {
	mu    sync.Mutex
	any   bool
	hosts map[nvmeof.NQN]*Host[C]
}

// Set adds a host, or replaces the one of that name.
func (l *List[C]) Set(h *Host[C]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		l.hosts = make(map[nvmeof.NQN]*Host[C])
	}
	l.hosts[h.NQN] = h
}

// Remove reports whether there was such a host.
func (l *List[C]) Remove(nqn nvmeof.NQN) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := l.hosts[nqn]
	delete(l.hosts, nqn)
	return found
}

// AllowAny allows every host, or only those that were set.
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

// Clone is the list as it is now.
func (l *List[C]) Clone() *List[C] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &List[C]{any: l.any, hosts: maps.Clone(l.hosts)}
}

// Named returns a host that was set, or nil.
func (l *List[C]) Named(nqn nvmeof.NQN) *Host[C] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts[nqn]
}

// Find returns the entry by which a host is allowed, or nil. A host that is allowed only
// because all are has all rights and no configuration.
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

// All returns the hosts that were set, by name.
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
