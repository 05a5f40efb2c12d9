package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group"
	"github.com/nvmeof-go/nvmeof/internal/group/revision"
	"github.com/nvmeof-go/nvmeof/internal/group/runner"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A shared is the document that the gateways share. It implements [control.Group].
type shared Gateway

// Propose implements [control.Group].
func (s *shared) Propose(ctx context.Context, base int64, doc *config.Document) (int64, error) {
	text := s.documents.write(doc)
	if len(text) > config.MaxText {
		return 0, fmt.Errorf("the configuration would have %d bytes, more than the %d that gateways read", len(text), config.MaxText)
	}
	s.files.forgotten(ctx, base, s.documents.agreedOn(base))
	n, err := s.documents.cache.Write(ctx, s.store, base, text)
	s.counts.knows(n)
	switch {
	case errors.Is(err, revision.ErrConflict):
		return 0, &control.ConflictError{Base: base}
	case err == nil:
		s.documents.agree(n, doc)
		s.files.forgotten(ctx, n, doc)
	}
	return n, err
}

// Latest implements [control.Group].
func (s *shared) Latest(ctx context.Context) (int64, *config.Document, error) {
	n, text, err := s.documents.cache.Read(ctx, s.store)
	s.counts.knows(n)
	if errors.Is(err, revision.ErrLost) {
		err = &control.LostError{Err: err}
	}
	if err != nil || n == 0 {
		return 0, new(config.Document), err
	}
	doc, err := s.documents.read(text)
	if err == nil {
		s.documents.agree(n, doc)
	}
	return n, doc, err
}

// documents read and write the group's document. Consecutive revisions have much in common, which is reused.
type documents struct {
	cache revision.Cache

	mu     sync.Mutex // guards what follows
	reader config.Reader
	text   []byte           // that was read or written last
	last   *config.Document // the document of text
	none   []byte           // the last text that was read and is not a valid document
	why    error            // the error of none
	number int64            // the revision of agreed
	agreed *config.Document // that the group has, or had
}

// agree notes the document of a revision.
func (d *documents) agree(number int64, doc *config.Document) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number, d.agreed = number, doc
}

// agreedOn returns the document of a revision, nil if it is not known.
func (d *documents) agreedOn(number int64) *config.Document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.number != number {
		return nil
	}
	return d.agreed
}

func (d *documents) write(doc *config.Document) (text []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text, d.last = d.reader.Write(doc), doc
	return d.text
}

// read decodes a document. It does not decode the same text again, even an invalid one, which the group may have for
// long.
func (d *documents) read(text []byte) (*config.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil && bytes.Equal(text, d.text) {
		return d.last, nil
	}
	if d.why != nil && bytes.Equal(text, d.none) {
		return nil, d.why
	}
	doc, err := d.reader.Read("the group's configuration", text)
	if err != nil {
		d.none, d.why = text, err
		return nil, err
	}
	d.text, d.last, d.none, d.why = text, doc, nil, nil
	return doc, nil
}

// againTime is the time after which a document that could not be followed is tried again.
const againTime = 2 * time.Second

// follow applies the group's document to the target whenever the document changes, until ctx ends.
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
		g.owned.SetBehind(err != nil)
		if err == nil {
			g.counts.applied.Store(n)
			g.relist()
			said = ""
			for _, who := range []chan struct{}{g.followed, g.erasing} {
				select {
				case who <- struct{}{}:
				default: // it is signalled already
				}
			}
		} else if ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			g.cfg.Log.Error("cannot apply the group's configuration", zap.Error(err))
		}
		g.unfollowed(err)
		doc := control.Present(g.manager)
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

// unfollowed raises an alarm if the group's configuration cannot be read, or was lost. It is called again while that
// lasts.
func (g *Gateway) unfollowed(err error) {
	kind := group.AlarmUnreadable
	switch {
	case !errors.As(err, new(*control.GroupError)), errors.Is(err, state.ErrUnavailable), errors.Is(err, state.ErrRefused), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return
	case errors.As(err, new(*control.LostError)):
		kind = group.AlarmStore
	}
	g.alarm(group.Alarm{Kind: kind, Gateway: g.name, Text: err.Error()})
}

// relist updates the generation of the discovery log after a change of the configuration.
func (g *Gateway) relist() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listing > 0 {
		g.listPeers(g.listing, g.peers)
	}
}

// groups returns the ANA groups of a document.
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
