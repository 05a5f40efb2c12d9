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
	// lookEvery is the interval at which the notes of the gateways are read.
	lookEvery = 20 * time.Millisecond
	// currentTime is how long serving a group waits for the current configuration.
	currentTime = 2 * time.Second
)

// enforce enforces each configuration that the target has followed, and notes that in the store, until ctx ends.
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
				g.cfg.Log.Warn("access that the group's configuration withdraws from hosts may still be granted here", zap.Error(err))
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

// refsOf returns the names of namespaces in the group's store.
func refsOf(all []control.NamespaceRef) (names []string) {
	for _, p := range all {
		names = append(names, refOf(p))
	}
	slices.Sort(names) // so that the same namespaces are not written again
	return names
}

func refOf(p control.NamespaceRef) string { return fmt.Sprintf("%s/%d", p.Subsystem, p.NSID) }

// Followed implements [control.Group].
func (s *shared) Followed(ctx context.Context, n int64, at control.NamespaceRef) error {
	var late []string // from the last read
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
		return fmt.Errorf("gateway %s has not yet enforced revision %d of the configuration (if it does not answer, nvmeof gateway fail fences it)", strings.Join(late, ", "), n)
	}
}

// late returns the gateways that may serve something and have not enforced a revision in a namespace.
func (s *shared) late(ctx context.Context, n int64, at control.NamespaceRef) (names []string, err error) {
	snapshot, err := s.store.Get(ctx, group.GroupPrefix)
	if err != nil {
		return nil, err
	}
	all, err := group.Survivors(snapshot)
	if err != nil {
		return nil, err
	}
	// Read after the gateways: one that registers later begins with this revision or a later one.
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

// awaitCurrent waits a limited time until the target has the current configuration: with an earlier one, a
// gateway that begins to serve a group may admit hosts whose rights were withdrawn.
func (g *Gateway) awaitCurrent(ctx context.Context) {
	n, err := revision.Number(ctx, g.store)
	if err != nil {
		return // the configuration that the target has is used
	}
	for end := time.Now().Add(currentTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if has, behind := control.Revision(g.manager); has >= n && behind == nil {
			return
		}
	}
}
