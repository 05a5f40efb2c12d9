package control

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Lacking returns an error if hosts of [Config.Moved] would lose something that the previous Manager gave them: a
// namespace that it served waits, or a connected host waits for its key. Call it after the document was applied and
// before [Adopt], while the previous Manager can still continue.
func Lacking(m *Manager) error {
	if m.cfg.Moved == nil || m.cfg.Moved.Target == nil {
		return nil
	}
	had := m.cfg.Moved.Target
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for at, w := range m.waiting {
		if had.Served(at.nqn, capsule.NSID(at.nsid)) {
			all = append(all, fmt.Sprintf("cannot serve %s, which the running target serves to hosts: %s", namespaceName(at), w.why))
		}
	}
	for at, w := range m.keyless {
		if had.Connected(at.nqn, at.host) {
			all = append(all, fmt.Sprintf("cannot admit %v, which is connected to the running target: %s", at, w.why))
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all) // report the same one each time
	text := "this process " + all[0]
	if n := len(all) - 1; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return errors.New(text + ". Correct that, or remove it from the running target first")
}
