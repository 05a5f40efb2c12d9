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

// noteDenied notes the subsystems in which a change may have taken something from hosts: see Enforce.
// Called with mu held.
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

// Enforced is what has ended of what the group's document has taken from hosts.
type Enforced struct {
	Revision int64          // of which it has
	But      []NamespaceRef // where it may not have: a store does not end a command, for example
	Why      error          // likewise
}

const (
	// firstLook is how long Enforce waits for what the document has just taken from hosts.
	firstLook = 3 * time.Second
	// nextLook is how long it waits for what has not ended then.
	nextLook = 100 * time.Millisecond
	// looks are made at a time.
	looks = 64
)

// Enforce ends what hosts have under way in namespaces that the group's document has taken from them. What
// has not ended where it says so is tried again by the next call, beside what is taken by then. With an
// error nothing is known to have ended; when ctx ends no more is begun. There is one call at a time.
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
			return // it has gone, with all that was under way in it
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

// enforce ends what hosts have under way in namespaces of a subsystem that they may not use. It returns why
// some of that has not ended, and in which namespaces, if that is known; before are those in which it had
// not before.
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
		return nil, err // in one that the subsystem has no more, or in any
	}
	return late, errors.Join(why, whyMore) // nil: it has ended by now
}

// unfinished are the namespaces in which what hosts have under way that may not use them does not end, and
// why.
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

// enforceTime is how long a change that takes something from hosts waits for other gateways.
const enforceTime = 10 * time.Second

// followed returns when all gateways that may serve something have what the document of now says, and
// what that takes from hosts in a namespace has ended there.
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
	if _, _, err := m.cfg.Group.Latest(ctx); err != nil { // what this gateway has may be over
		return &GroupError{err}
	}
	if err := m.cfg.Group.Followed(ctx, revision, at); err != nil {
		return &GroupError{fmt.Errorf("it is changed, and not yet in force everywhere, so that hosts may still write what was taken from them: %w; ask again", err)}
	}
	return nil
}
