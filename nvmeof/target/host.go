package target

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/access"
)

// Access is a host's right to a namespace.
type Access = access.Level

const (
	AccessWrite Access = access.Write // read and write
	AccessRead  Access = access.Read  // commands that change blocks fail with Namespace Is Write Protected
	AccessNone  Access = access.None  // the namespace does not exist for the host
)

// HostConfig describes a host that may connect to a subsystem, its rights there, and its authentication: by
// DH-HMAC-CHAP if it has a key, otherwise none. Changed keys apply from the next authentication of each queue.
type HostConfig struct {
	NQN nvmeof.NQN // required
	// Access is the right to every namespace that is not in Namespaces, including those added later; the zero
	// value allows reading and writing.
	Access     Access
	Namespaces map[capsule.NSID]Access

	DHCHAPKey     auth.Key // the key by which the host authenticates on each queue; zero: it does not
	DHCHAPCtrlKey auth.Key // the key by which the target authenticates to a host that requests it

	DHCHAPHashes []auth.Hash  // the permitted hashes in the order of preference; default: auth.AllHashes
	DHCHAPGroups []auth.Group // likewise; default: auth.AllGroups

	// Unready is why the host cannot be admitted for now, for example because its key cannot be read; empty: it
	// can. Its Connect commands fail with Controller Busy, after which hosts retry; its existing connections stay.
	Unready string
}

// check checks the configuration.
func (c *HostConfig) check() error {
	if _, err := nvmeof.AnyNQN(string(c.NQN)); err != nil {
		return fmt.Errorf("host %w", err)
	}
	for id, a := range c.Namespaces {
		if id == 0 || id > storage.MaxNamespace {
			return fmt.Errorf("host %s: namespace %d: want 1 to %d", c.NQN, id, storage.MaxNamespace)
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

// clone returns a copy that shares no memory with the caller's.
func (c HostConfig) clone() HostConfig {
	c.Namespaces = maps.Clone(c.Namespaces)
	c.DHCHAPHashes, c.DHCHAPGroups = slices.Clone(c.DHCHAPHashes), slices.Clone(c.DHCHAPGroups)
	return c
}

// entry returns the host's entry in the access list of a subsystem.
func (c HostConfig) entry() *access.Host[HostConfig] {
	c = c.clone()
	return &access.Host[HostConfig]{NQN: c.NQN, Config: c, Rights: access.NewRights(c.Access, c.Namespaces)}
}

// authenticates reports whether the host has to authenticate. A host that is not ready may have a key, so it does.
func (c *HostConfig) authenticates() bool { return !c.DHCHAPKey.IsZero() || c.Unready != "" }

// hostConfig returns the configuration of a host, or the zero value if the host has no entry of its own.
func (s *Subsystem) hostConfig(nqn nvmeof.NQN) HostConfig {
	if h := s.hosts.Named(nqn); h != nil {
		return h.Config
	}
	return HostConfig{}
}
