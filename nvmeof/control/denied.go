package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// noteDenied notes the subsystems in which a change may have taken something from hosts: see Enforce.
// Called with mu held.
func noteDenied(m *Manager, changes []config.Change) {
	if m.cfg.Group == nil {
		return
	}
	for _, c := range changes {
		if c.Kind == config.KindHost || c.Kind == config.KindVisibility {
			m.denied[cmp.Or(c.Subsystem, nvmeof.NQN(c.Name))] = true
		}
	}
}

// Enforce ends what hosts have under way in namespaces that the group's document has taken from them, and
// returns the revision of that: what it takes from hosts has ended here. With an error some of it may not
// have, and is tried again by the next call; when ctx ends no more is begun.
func Enforce(ctx context.Context, m *Manager) (revision int64, err error) {
	m.mu.Lock()
	revision, behind, denied := m.revision, m.behind, m.denied
	m.denied = map[nvmeof.NQN]bool{}
	m.mu.Unlock()
	for nqn := range denied {
		s, missing := m.subsystem(nqn)
		if missing != nil {
			continue // it has gone, with all that was under way in it
		}
		late := ctx.Err()
		if late == nil {
			late = target.ExpelDenied(s, 0, expelTimeout)
		}
		if late != nil {
			err = errors.Join(err, late)
			m.mu.Lock()
			m.denied[nqn] = true
			m.mu.Unlock()
		}
	}
	return revision, errors.Join(behind, err)
}

// enforceTime is how long a change that takes something from hosts waits for other gateways.
const enforceTime = 10 * time.Second

// followed returns when all gateways that may serve something have what the document of now says, and
// what that takes from hosts has ended there.
func followed(ctx context.Context, m *Manager) error {
	if m.cfg.Group == nil {
		return nil
	}
	revision, behind := Revision(m)
	if behind != nil {
		return &GroupError{behind}
	}
	ctx, cancel := context.WithTimeout(ctx, enforceTime)
	defer cancel()
	if err := m.cfg.Group.Followed(ctx, revision); err != nil {
		return &GroupError{fmt.Errorf("it is changed, and not yet in force everywhere, so that hosts may still write what was taken from them: %w; ask again", err)}
	}
	return nil
}
