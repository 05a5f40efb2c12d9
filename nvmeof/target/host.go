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

// Access is what a host may do with a namespace.
type Access = access.Level

const (
	AccessWrite Access = access.Write // read and write
	AccessRead  Access = access.Read  // what changes blocks fails with Namespace Is Write Protected
	AccessNone  Access = access.None  // the namespace does not exist for the host
)

// HostConfig is a host that may connect to a subsystem, its rights there, and how it
// authenticates: by DH-HMAC-CHAP if it has a key, otherwise not at all. A change of the
// keys applies from the next authentication of each queue on.
type HostConfig struct {
	NQN nvmeof.NQN // required
	// Access is the right to every namespace that Namespaces does not name, those
	// added later included; the zero value is reading and writing.
	Access     Access
	Namespaces map[capsule.NSID]Access

	DHCHAPKey     auth.Key // the key by which the host authenticates on each queue; none: it does not
	DHCHAPCtrlKey auth.Key // the key by which the target authenticates to a host that requests it

	DHCHAPHashes []auth.Hash  // that may be used, the preferred one first; default: auth.AllHashes
	DHCHAPGroups []auth.Group // likewise; default: auth.AllGroups

	// Unready is why the host cannot be let in for now, as where its key cannot be read; empty: it
	// can. Its Connect commands fail with Controller Busy, after which hosts retry, and what it
	// has connected stays.
	Unready string
}

// check checks what is configured.
func (c *HostConfig) check() error {
	if _, err := nvmeof.AnyNQN(string(c.NQN)); err != nil {
		return fmt.Errorf("host %w", err)
	}
	for id, a := range c.Namespaces {
		if id == 0 || id > storage.MaxNamespace {
			return fmt.Errorf("host %s: namespace %d: 1 to %d", c.NQN, id, storage.MaxNamespace)
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

// entry is the host as the list of a subsystem has it.
func (c HostConfig) entry() *access.Host[HostConfig] {
	c = c.clone()
	return &access.Host[HostConfig]{NQN: c.NQN, Config: c, Rights: access.NewRights(c.Access, c.Namespaces)}
}

// authenticates reports whether the host has to authenticate. One that is not ready does, as
// far as is known.
func (c *HostConfig) authenticates() bool { return !c.DHCHAPKey.IsZero() || c.Unready != "" }

// hostConfig is the configuration of a host: the zero value if it has no entry of its
// own.
func (s *Subsystem) hostConfig(nqn nvmeof.NQN) HostConfig {
	if h := s.hosts.Named(nqn); h != nil {
		return h.Config
	}
	return HostConfig{}
}
