package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

var accesses = map[config.Access]target.Access{
	"": target.AccessWrite, "write": target.AccessWrite, "read": target.AccessRead, "none": target.AccessNone,
}

// setHost allows a host with its rights. With Wait, a host whose key cannot be read is refused for now, and its key
// waited for.
func (m *Manager) setHost(s *target.Subsystem, h *config.Host, o Options) error {
	c, doubts, err := m.hostConfig(h)
	logDoubts(m, doubts)
	if err != nil && !o.Wait {
		return err
	}
	at := hostKey{s.NQN(), h.NQN}
	forgetKey(m, at)
	if err != nil {
		c.Unready = err.Error()
		awaitKey(m, at, h, false, err)
	}
	return s.SetHost(c)
}

// logDoubts logs warnings about key files.
func logDoubts(m *Manager, doubts []string) {
	for _, text := range doubts {
		m.log.Warn(text)
	}
}

// hostConfig returns the target's configuration of a host, with its present keys, and warnings about key files.
// With an error, it has no keys. It uses nothing that mu guards.
func (m *Manager) hostConfig(h *config.Host) (c target.HostConfig, doubts []string, err error) {
	c = target.HostConfig{NQN: h.NQN, Access: accesses[h.Access], Namespaces: map[capsule.NSID]target.Access{}}
	for _, r := range h.Namespaces {
		c.Namespaces[capsule.NSID(r.NSID)] = accesses[r.Access]
	}
	for _, name := range h.Hashes {
		hash, err := auth.ParseHash(string(name))
		if err != nil {
			return c, nil, err
		}
		c.DHCHAPHashes = append(c.DHCHAPHashes, hash)
	}
	for _, name := range h.DHGroups {
		group, err := auth.ParseGroup(string(name))
		if err != nil {
			return c, nil, err
		}
		c.DHCHAPGroups = append(c.DHCHAPGroups, group)
	}
	key, err := m.key(h.KeyFile, &doubts)
	if err != nil {
		return c, doubts, fmt.Errorf("key of host %s: %w", h.NQN, err)
	}
	controllerKey, err := m.key(h.ControllerKeyFile, &doubts)
	if err != nil {
		return c, doubts, fmt.Errorf("controller key for host %s: %w", h.NQN, err)
	}
	c.DHCHAPKey, c.DHCHAPCtrlKey = key, controllerKey
	return c, doubts, nil
}

func (m *Manager) key(file config.KeyFile, doubts *[]string) (auth.Key, error) {
	if file == "" {
		return auth.Key{}, nil
	}
	path, err := file.Expand(m.cfg.Getenv)
	if err != nil {
		return auth.Key{}, err
	}
	k, warning, err := m.stores.readKey(m.context, path)
	if warning != "" {
		*doubts = append(*doubts, warning)
	}
	if errors.Is(err, fs.ErrPermission) {
		if outside := m.cfg.Permit(path, false); outside != nil {
			err = outside
		}
	}
	return k, err
}

// readKey is ReadKey with the time limit of a change, so that there is time to write to a pipe.
func (r *reacher) readKey(ctx context.Context, path string) (auth.Key, string, error) {
	type content struct {
		key     auth.Key
		warning string
	}
	c, err := reachFor(r, r.timeOf(changeTimeout), config.Path(path), func() (c content, err error) {
		c.key, c.warning, err = ReadKey(ctx, path)
		return c, err
	}, nil)
	return c.key, c.warning, err
}

// maxKeyFile is the maximum size of a key file in bytes, far above that of the longest key.
const maxKeyFile = 4096

// ReadKey reads a file that contains a key and nothing else. It returns a warning if other users can read the file.
func ReadKey(ctx context.Context, path string) (k auth.Key, warning string, err error) {
	b, err := namedfile.Read(ctx, path, maxKeyFile)
	if err != nil {
		return k, "", err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		warning = fmt.Sprintf("%s contains a secret, but other users may read it (%v): chmod 600 %s", path, info.Mode().Perm(), shell.Quote(path))
	}
	if k, err = auth.ParseKey(string(b)); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return k, warning, err
}
