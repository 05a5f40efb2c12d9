package control

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

var accesses = map[config.Access]target.Access{
	"": target.AccessWrite, "write": target.AccessWrite, "read": target.AccessRead, "none": target.AccessNone,
}

func (m *Manager) setHost(s *target.Subsystem, h *config.Host) error {
	c, err := m.hostConfig(h)
	if err != nil {
		return err
	}
	return s.SetHost(c)
}

// hostConfig is a host as the target takes it, with its keys as they are now.
func (m *Manager) hostConfig(h *config.Host) (c target.HostConfig, err error) {
	c = target.HostConfig{NQN: h.NQN, Access: accesses[h.Access], Namespaces: map[capsule.NSID]target.Access{}}
	for _, r := range h.Namespaces {
		c.Namespaces[capsule.NSID(r.NSID)] = accesses[r.Access]
	}
	for _, name := range h.Hashes {
		hash, err := auth.ParseHash(string(name))
		if err != nil {
			return c, err
		}
		c.DHCHAPHashes = append(c.DHCHAPHashes, hash)
	}
	for _, name := range h.DHGroups {
		group, err := auth.ParseGroup(string(name))
		if err != nil {
			return c, err
		}
		c.DHCHAPGroups = append(c.DHCHAPGroups, group)
	}
	if c.DHCHAPKey, err = m.key(h.KeyFile); err != nil {
		return c, fmt.Errorf("key of host %s: %w", h.NQN, err)
	}
	if c.DHCHAPCtrlKey, err = m.key(h.ControllerKeyFile); err != nil {
		return c, fmt.Errorf("controller key for host %s: %w", h.NQN, err)
	}
	return c, nil
}

func (m *Manager) key(file config.KeyFile) (auth.Key, error) {
	if file == "" {
		return auth.Key{}, nil
	}
	path, err := file.Expand(m.cfg.Getenv)
	if err != nil {
		return auth.Key{}, err
	}
	k, warning, err := m.stores.readKey(m.context, path)
	if warning != "" {
		m.log.Warn(warning)
	}
	return k, err
}

// readKey is ReadKey for as long as a change may take: a pipe has its time to be written to.
func (r *reacher) readKey(ctx context.Context, path string) (auth.Key, string, error) {
	type content struct {
		key     auth.Key
		warning string
	}
	c, err := reachFor(r, changeTimeout, config.Path(path), func() (c content, err error) {
		c.key, c.warning, err = ReadKey(ctx, path)
		return c, err
	}, nil)
	return c.key, c.warning, err
}

// maxKeyFile is far above what the longest key takes, in bytes.
const maxKeyFile = 4096

// ReadKey reads a file that has a key and nothing else. The warning is about who
// else can read it.
func ReadKey(ctx context.Context, path string) (k auth.Key, warning string, err error) {
	b, err := namedfile.Read(ctx, path, maxKeyFile)
	if err != nil {
		return k, "", err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("%s holds a secret that others may read (%v): chmod 600 %s", path, info.Mode().Perm(), path)
	}
	if k, err = auth.ParseKey(string(b)); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return k, warning, err
}

// RereadKeys takes the keys of all hosts as their files have them now, or none
// where one cannot be read. Connections stay: a key counts from the next
// authentication. It returns how many hosts have one.
func (m *Manager) RereadKeys() (hosts int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sets []func() error
	for _, d := range m.doc.Subsystems {
		s, err := m.subsystem(d.NQN)
		if err != nil {
			return 0, err
		}
		for _, h := range d.Hosts {
			if h.KeyFile == "" {
				continue
			}
			c, err := m.hostConfig(h)
			if err != nil {
				return 0, &unreadError{err}
			}
			sets = append(sets, func() error { return s.SetHost(c) })
		}
	}
	var errs []error
	for _, set := range sets {
		errs = append(errs, set())
	}
	m.log.Info("keys are read again", zap.Int("hosts", len(sets)))
	return len(sets), errors.Join(errs...)
}
