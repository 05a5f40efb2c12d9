package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/revision"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

const (
	// lookEvery is how often it is looked who has followed.
	lookEvery = 20 * time.Millisecond
	// currentTime is how long the service of a group waits for the present configuration.
	currentTime = 2 * time.Second
)

// enforce says in the store which configuration this gateway has enforced, whenever it has followed one.
func (g *Gateway) enforce(ctx context.Context) {
	said := ""
	for {
		var again <-chan time.Time
		e, err := control.Enforce(ctx, g.manager)
		if err == nil && e.Revision > 0 {
			err = errors.Join(revision.Note(ctx, g.store, g.name, e.Revision, refsOf(e.But)), e.Why)
		}
		switch {
		case err == nil:
			said = ""
		case ctx.Err() == nil:
			again = time.After(againTime)
			if err.Error() != said {
				said = err.Error()
				g.cfg.Log.Warn("what the group's configuration takes from hosts may not be in force here", zap.Error(err))
			}
		}
		select {
		case <-g.followed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// refsOf are namespaces as the group's store has them.
func refsOf(all []control.NamespaceRef) (names []string) {
	for _, p := range all {
		names = append(names, refOf(p))
	}
	slices.Sort(names) // so that what is the same is not written again
	return names
}

func refOf(p control.NamespaceRef) string { return fmt.Sprintf("%s/%d", p.Subsystem, p.NSID) }

// Followed implements [control.Group].
func (s *shared) Followed(ctx context.Context, n int64, at control.NamespaceRef) error {
	var late []string // as was last seen
	for {
		now, err := s.late(ctx, n, at)
		if err == nil {
			if late = now; len(late) == 0 {
				return nil
			}
		}
		select {
		case <-time.After(lookEvery):
			continue
		case <-ctx.Done():
		}
		if len(late) == 0 {
			return err
		}
		return fmt.Errorf("gateway %s has not enforced revision %d of the configuration (nvmeof gateway fail fences one that does not answer)", strings.Join(late, ", "), n)
	}
}

// late are the gateways that may serve something, and have not enforced a revision in a namespace.
func (s *shared) late(ctx context.Context, n int64, at control.NamespaceRef) (names []string, err error) {
	snapshot, err := s.store.Get(ctx, group.GroupPrefix)
	if err != nil {
		return nil, err
	}
	all, err := group.Survivors(snapshot)
	if err != nil {
		return nil, err
	}
	// After who there is: one that comes later begins with this revision, or a later one.
	followers, err := revision.Followers(ctx, s.store)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		f := followers[name]
		if f.Err != nil {
			name = fmt.Sprintf("%s (%v)", name, f.Err)
		}
		if f.Revision < n || slices.Contains(f.But, refOf(at)) || slices.Contains(f.But, refOf(control.NamespaceRef{Subsystem: at.Subsystem})) {
			names = append(names, name)
		}
	}
	return names, nil
}

// awaitCurrent waits, for a moment, until the target has the present configuration: one that begins to
// serve a group with an earlier one may let hosts in from which something was taken.
func (g *Gateway) awaitCurrent(ctx context.Context) {
	n, err := revision.Number(ctx, g.store)
	if err != nil {
		return // what there is counts
	}
	for end := time.Now().Add(currentTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if has, behind := control.Revision(g.manager); has >= n && behind == nil {
			return
		}
	}
}
