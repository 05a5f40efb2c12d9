package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// noteDenied records the subsystems in which changes may have taken access from hosts, for Enforce. The caller
// holds mu.
func noteDenied(m *Manager, changes []config.Change) {
	if m.cfg.Group == nil {
		return
	}
	for _, c := range changes {
		if c.Kind == config.KindHost || c.Kind == config.KindVisibility {
			nqn := cmp.Or(c.Subsystem, nvmeof.NQN(c.Name))
			m.denied[nqn] = append([]capsule.NSID(nil), m.denied[nqn]...)
		}
	}
}

// A NamespaceRef names a namespace of a subsystem, or with NSID 0 all of them.
type NamespaceRef struct {
	Subsystem nvmeof.NQN `json:"subsystem"`
	NSID      int        `json:"nsid,omitempty"`
}

// Enforced says how far the group's document is enforced: commands of hosts that it no longer allows have ended.
type Enforced struct {
	Revision int64          // revision of the document that is enforced
	But      []NamespaceRef // namespaces in which it may not be, for example since a store does not end a command
	Why      error          // why it may not be
}

const (
	// firstLook is how long Enforce waits for commands that the document has just disallowed.
	firstLook = 3 * time.Second
	// nextLook is how long it waits for those that have not ended by then.
	nextLook = 100 * time.Millisecond
	// looks is how many subsystems or namespaces are checked at a time.
	looks = 64
)

// Enforce ends commands of hosts in namespaces that the group's document has taken from them. Those that have not
// ended are tried again by the next call, together with new ones. If it returns an error, nothing is known to have
// ended. When ctx ends, it begins nothing more. Only one call may run at a time.
func Enforce(ctx context.Context, m *Manager) (Enforced, error) {
	m.mu.Lock()
	e, behind, denied := Enforced{Revision: m.revision}, m.behind, m.denied
	m.denied = map[nvmeof.NQN][]capsule.NSID{}
	m.mu.Unlock()
	var mu sync.Mutex // guards e
	all := slices.Collect(maps.Keys(denied))
	inParallel(looks, len(all), func(i int) { // each ends in firstLook and some times nextLook
		nqn := all[i]
		s, missing := m.subsystem(nqn)
		if missing != nil {
			return // it was removed, with all of its commands
		}
		late, why := denied[nqn], ctx.Err()
		if why == nil {
			late, why = enforce(s, late)
		}
		if why == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		e.Why = errors.Join(e.Why, why)
		if len(late) == 0 {
			e.But = append(e.But, NamespaceRef{Subsystem: nqn})
		}
		for _, id := range late {
			e.But = append(e.But, NamespaceRef{nqn, int(id)})
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.denied[nqn] = late
	})
	return e, errors.Join(behind, ctx.Err())
}

// enforce ends commands of hosts in namespaces of a subsystem that they may not use. before are the namespaces in
// which some had not ended earlier. If some have still not ended, it returns why, and in which namespaces if that
// is known.
func enforce(s *target.Subsystem, before []capsule.NSID) (late []capsule.NSID, why error) {
	late, why = unfinished(s, before)
	err := target.ExpelDeniedBut(s, late, firstLook)
	if err == nil {
		return late, why
	}
	var others []capsule.NSID
	for _, n := range s.Namespaces() {
		if !slices.Contains(late, n.ID()) {
			others = append(others, n.ID())
		}
	}
	more, whyMore := unfinished(s, others)
	late = append(late, more...)
	if target.ExpelDeniedBut(s, late, nextLook) != nil {
		return nil, err // in a namespace that the subsystem no longer has, or in any
	}
	return late, errors.Join(why, whyMore) // nil: they have ended by now
}

// unfinished returns the namespaces in which commands of hosts that may not use them have not ended, and why.
func unfinished(s *target.Subsystem, in []capsule.NSID) (late []capsule.NSID, why error) {
	var mu sync.Mutex
	inParallel(looks, len(in), func(i int) { // each ends in nextLook
		if err := target.ExpelDenied(s, in[i], nextLook); err != nil {
			mu.Lock()
			defer mu.Unlock()
			late, why = append(late, in[i]), err
		}
	})
	slices.Sort(late)
	return late, why
}

// enforceTime is how long a change that takes access from hosts waits for other gateways.
const enforceTime = 10 * time.Second

// followed waits until all gateways that may serve a namespace follow the present document, and commands that it
// disallows there have ended.
func followed(ctx context.Context, m *Manager, at NamespaceRef) error {
	if m.cfg.Group == nil {
		return nil
	}
	revision, behind := Revision(m)
	if behind != nil {
		return &GroupError{behind}
	}
	ctx, cancel := context.WithTimeout(ctx, enforceTime)
	defer cancel()
	if _, _, err := m.cfg.Group.Latest(ctx); err != nil { // unless the store answers, this document may be outdated
		return &GroupError{err}
	}
	if err := m.cfg.Group.Followed(ctx, revision, at); err != nil {
		return &GroupError{fmt.Errorf("it is changed, but not yet in force at all gateways, so hosts may still write to namespaces that were withdrawn from them: %w; repeat the request", err)}
	}
	return nil
}
