package multipath

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A listing is a controller's list of its namespaces.
type listing struct {
	of  *session
	ids []capsule.NSID
	err error
}

// Namespaces returns the identifiers of the active namespaces in ascending order: of all that any live path leads to.
// For a path that fails, or has not answered one second after another path, the open namespaces that it has are taken
// instead. If all paths fail, it returns all of their errors.
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

// listAll asks all sessions in parallel, and waits for those that answer.
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
	var others <-chan time.Time // nil until one has answered
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

// beside runs ask in a goroutine, and sends its result to answers unless ctx ends first.
func beside[T any](ctx context.Context, answers chan<- T, ask func() T) {
	go func() { // ends with ctx
		select {
		case answers <- ask():
		case <-ctx.Done():
		}
	}()
}
