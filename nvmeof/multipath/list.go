package multipath

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A listing is what a controller says when it is asked for its namespaces.
type listing struct {
	of  *session
	ids []capsule.NSID
	err error
}

// Namespaces lists the identifiers of the active namespaces in ascending order: those that any live path leads to.
// A path that fails, or has not answered a second after another one, stands for the namespaces that are open and that it has.
// The error is that of all paths where each has one.
func (s *Subsystem) Namespaces(ctx context.Context) ([]capsule.NSID, error) {
	live, err := s.reachable()
	if err != nil {
		return nil, err
	}
	ids, answered := map[capsule.NSID]struct{}{}, map[*session]bool{}
	var errs []error
	for _, l := range listAll(ctx, live) {
		if l.err != nil {
			errs = append(errs, l.err)
			continue
		}
		answered[l.of] = true
		for _, id := range l.ids {
			ids[id] = struct{}{}
		}
	}
	if len(answered) == 0 {
		return nil, errors.Join(append(errs, ctx.Err())...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.namespaces {
		for _, ses := range live {
			if a := ses.spaces[n]; a != nil && a.ns != nil && !answered[ses] {
				ids[n.id] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(ids)), nil
}

// listAll asks all sessions at a time, and waits for those that answer.
func listAll(ctx context.Context, live []*session) (all []listing) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan listing)
	for _, ses := range live {
		beside(ctx, answers, func() listing {
			ids, err := ses.ctrl.Namespaces(ctx)
			return listing{ses, ids, err}
		})
	}
	var others <-chan time.Time // nil until one has listed them
	for len(all) < len(live) {
		select {
		case l := <-answers:
			if all = append(all, l); l.err == nil && others == nil {
				others = time.After(othersTime)
			}
		case <-others:
			return all
		case <-ctx.Done():
			return all
		}
	}
	return all
}

// beside asks a controller while others are asked, until ctx ends.
func beside[T any](ctx context.Context, answers chan<- T, ask func() T) {
	go func() { // ends with ctx
		select {
		case answers <- ask():
		case <-ctx.Done():
		}
	}()
}
