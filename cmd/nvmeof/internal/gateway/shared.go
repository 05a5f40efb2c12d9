package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/revision"
	"github.com/nvmeof-go/nvmeof/internal/group/runner"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A shared is the document that the gateways have in common.
type shared Gateway

// Propose implements [control.Group].
func (s *shared) Propose(ctx context.Context, base int64, doc *config.Document) (int64, error) {
	text := doc.JSON()
	if len(text) > config.MaxText {
		return 0, fmt.Errorf("the configuration would have %d bytes, of which gateways read %d", len(text), config.MaxText)
	}
	n, err := revision.Write(ctx, s.store, base, text)
	s.counts.knows(n)
	if errors.Is(err, revision.ErrConflict) {
		return 0, &control.ConflictError{Base: base}
	}
	return n, err
}

// Latest implements [control.Group].
func (s *shared) Latest(ctx context.Context) (int64, *config.Document, error) {
	n, text, err := revision.Read(ctx, s.store)
	s.counts.knows(n)
	if err != nil || n == 0 {
		return 0, new(config.Document), err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	doc, err := s.reader.Read("the group's configuration", text)
	return n, doc, err
}

// againTime is after what time a document is tried again that could not be followed.
const againTime = 2 * time.Second

// follow makes the target what the group's document says, whenever that changes.
func (g *Gateway) follow(ctx context.Context, run *runner.Runner) {
	changed := make(chan struct{}, 1)
	go func() { // ends with ctx
		_ = g.store.Watch(ctx, revision.Prefix, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
	}()
	said := ""
	for {
		n, err := control.Follow(ctx, g.manager)
		if err == nil {
			g.counts.applied.Store(n)
			g.relist()
			said = ""
			for _, who := range []chan struct{}{g.followed, g.erasing} {
				select {
				case who <- struct{}{}:
				default: // it looks anyway
				}
			}
		} else if ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			g.cfg.Log.Error("following the group's configuration", zap.Error(err))
		}
		doc := g.manager.Document()
		g.keepers.forget(doc)
		run.Configure(groups(doc))
		run.Behind(err != nil)
		var again <-chan time.Time
		if err != nil {
			again = time.After(againTime)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// relist says in the discovery log that there is another configuration.
func (g *Gateway) relist() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listing > 0 {
		g.listPeers(g.listing, g.peers)
	}
}

// groups are the ANA groups of a document.
func groups(doc *config.Document) (all []group.Group) {
	ids, fences := doc.Groups()
	for _, id := range ids {
		backend := group.Fenced
		if fences[id] == config.FenceLease {
			backend = group.Lease
		}
		all = append(all, group.Group{ID: group.ID(id), Backend: backend})
	}
	return all
}
