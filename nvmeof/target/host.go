package target

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
)

// Access is what a host may do with a namespace.
type Access uint8

const (
	AccessWrite Access = iota // read and write
	AccessRead                // what changes blocks fails with Namespace Is Write Protected
	AccessNone                // the namespace does not exist for the host
)

func (a Access) String() string {
	switch a {
	case AccessWrite:
		return "write"
	case AccessRead:
		return "read"
	case AccessNone:
		return "none"
	}
	return fmt.Sprintf("access %d", uint8(a))
}

// HostConfig is a host that may connect to a subsystem, its rights there, and how
// it proves who it is: by DH-HMAC-CHAP if it has a key, else its word is taken. A
// change of the keys counts from the next authentication of each queue.
type HostConfig struct {
	NQN string // required
	// Access is the right to every namespace that Namespaces does not name, those
	// added later included; the zero value is reading and writing.
	Access     Access
	Namespaces map[capsule.NSID]Access

	DHCHAPKey     auth.Key // what the host must know on each queue; none: nothing
	DHCHAPCtrlKey auth.Key // what the target proves itself with to a host that asks for it

	DHCHAPHashes []auth.Hash  // that may be used, the preferred one first; default: auth.AllHashes
	DHCHAPGroups []auth.Group // likewise; default: auth.AllGroups
}

// check judges what an administrator gave.
func (c *HostConfig) check() error {
	f := capsule.MakeNQNField(c.NQN)
	if err := f.Check(); err != nil || f.String() != c.NQN {
		return fmt.Errorf("host %q: not a valid NQN: 1 to %d bytes of printable UTF-8", c.NQN, capsule.MaxNQN)
	}
	for id, a := range c.Namespaces {
		if id == 0 || id > maxNamespaces {
			return fmt.Errorf("host %s: namespace %d: 1 to %d", c.NQN, id, maxNamespaces)
		}
		if a > AccessNone {
			return fmt.Errorf("host %s: namespace %d: %v: want AccessWrite, AccessRead or AccessNone", c.NQN, id, a)
		}
	}
	if c.Access > AccessNone {
		return fmt.Errorf("host %s: %v: want AccessWrite, AccessRead or AccessNone", c.NQN, c.Access)
	}
	return c.checkKeys()
}

func (c *HostConfig) checkKeys() error {
	switch {
	case c.DHCHAPKey.IsZero() && !c.DHCHAPCtrlKey.IsZero():
		return fmt.Errorf("host %s: a controller's key needs a host's key too", c.NQN)
	case slices.ContainsFunc(c.DHCHAPHashes, func(h auth.Hash) bool { return !h.Usable() }):
		return fmt.Errorf("host %s: unknown hash in %v", c.NQN, c.DHCHAPHashes)
	case slices.ContainsFunc(c.DHCHAPGroups, func(g auth.Group) bool { return !g.Usable() }):
		return fmt.Errorf("host %s: unknown Diffie-Hellman group in %v", c.NQN, c.DHCHAPGroups)
	}
	return nil
}

// clone returns a copy that shares nothing with what the caller may change.
func (c HostConfig) clone() HostConfig {
	c.Namespaces = maps.Clone(c.Namespaces)
	c.DHCHAPHashes, c.DHCHAPGroups = slices.Clone(c.DHCHAPHashes), slices.Clone(c.DHCHAPGroups)
	return c
}

// rights are a host's accesses in a form that shards read. They do not change;
// nil are all rights.
type rights struct {
	rest  Access
	named []Access // by NSID
}

func (c *HostConfig) rights() *rights {
	r := &rights{rest: c.Access}
	for id := range c.Namespaces {
		for len(r.named) <= int(id) {
			r.named = append(r.named, c.Access)
		}
	}
	for id, a := range c.Namespaces {
		r.named[id] = a
	}
	return r
}

func (r *rights) access(id capsule.NSID) Access {
	switch {
	case r == nil:
		return AccessWrite
	case uint64(id) < uint64(len(r.named)):
		return r.named[id]
	}
	return r.rest
}

// A hostEntry is one host that is allowed. It does not change: a change makes
// another.
type hostEntry struct {
	config HostConfig
	rights *rights
}

// authenticates reports whether the host has to prove who it is.
func (e *hostEntry) authenticates() bool { return !e.config.DHCHAPKey.IsZero() }

// hostList says which hosts may connect to a subsystem. The zero value refuses
// all.
type hostList struct {
	mu    sync.Mutex
	any   bool
	hosts map[string]*hostEntry
}

// set adds a host, or changes it.
func (l *hostList) set(c HostConfig) {
	c = c.clone()
	e := &hostEntry{config: c, rights: c.rights()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		l.hosts = make(map[string]*hostEntry)
	}
	l.hosts[c.NQN] = e
}

// remove reports whether there was such a host.
func (l *hostList) remove(nqn string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, found := l.hosts[nqn]
	delete(l.hosts, nqn)
	return found
}

func (l *hostList) allowAny(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.any = on
}

// named returns the entry of a host that was allowed by its name, or nil.
func (l *hostList) named(nqn string) *hostEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts[nqn]
}

// keys returns what a host has to prove itself with: the zero value where it has no
// entry of its own.
func (l *hostList) keys(nqn string) HostConfig {
	if e := l.named(nqn); e != nil {
		return e.config
	}
	return HostConfig{}
}

// find returns the entry by which a host is allowed, or nil. One that only the
// permission for all allows has all rights.
func (l *hostList) find(nqn string) *hostEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.hosts[nqn]; e != nil {
		return e
	}
	if l.any {
		return &hostEntry{config: HostConfig{NQN: nqn}}
	}
	return nil
}

func (l *hostList) allows(nqn string) bool { return l.find(nqn) != nil }

// list returns the hosts by name.
func (l *hostList) list() []HostConfig {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]HostConfig, 0, len(l.hosts))
	for _, e := range l.hosts {
		out = append(out, e.config.clone())
	}
	slices.SortFunc(out, func(a, b HostConfig) int { return cmp.Compare(a.NQN, b.NQN) })
	return out
}
