package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A Group stores the subsystems and referrals that gateways share: a document with a revision that increases with
// each change.
type Group interface {
	// Propose stores a document, which must not change afterwards, if the present one has revision base; 0 means
	// that there is none. Otherwise the error is a [ConflictError].
	Propose(ctx context.Context, base int64, doc *config.Document) (revision int64, err error)
	// Latest returns the present document, whose namespaces do not change. Revision 0 means that there is none.
	Latest(ctx context.Context) (revision int64, doc *config.Document, err error)
	// Followed returns when each gateway that may serve a namespace has enforced a revision there: see Enforce.
	// When ctx ends earlier, it returns an error that names a gateway that has not.
	Followed(ctx context.Context, revision int64, at NamespaceRef) error
}

// A ConflictError reports that another gateway has changed the group's document meanwhile.
type ConflictError struct{ Base int64 }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the group's configuration is no longer at revision %d: another gateway has changed it; nothing was changed, try again", e.Base)
}

// A GroupError reports that the group's document could not be changed or read.
type GroupError struct{ Err error }

func (e *GroupError) Error() string { return "the group's configuration: " + e.Err.Error() }

func (e *GroupError) Unwrap() error { return e.Err }

// errOutdated is the error of an edit of a document that is no longer the group's.
var errOutdated = errors.New("the group's configuration was changed at the same time")

const (
	// groupTime is the time limit for requests to the group's store.
	groupTime = 10 * time.Second
	// groupTries is how often an edit is tried if other gateways are faster.
	groupTries = 5
)

// own returns the part of a document that belongs to this target alone. Without a group, that is all of it.
func own(m *Manager, doc *config.Document) *config.Document {
	if m.cfg.Group == nil {
		return doc
	}
	part := *doc
	part.Subsystems, part.Referrals, part.Erasing = nil, nil, nil
	return part.Clone()
}

// toEdit returns the document with which an edit begins: the present one of the target. If that differs from the
// group's document, the shared part is taken from the latter. So changes of others are kept, and an edit can
// correct the document. The caller holds mu.
func toEdit(m *Manager) *config.Document {
	doc := successor(m)
	if m.behind != nil {
		doc.TakeShared(m.shared)
	}
	return doc
}

// successor returns a copy of the present document that can be changed into the next. The caller holds mu.
func successor(m *Manager) *config.Document {
	if len(m.cfg.Names) > 0 { // the UUIDs of namespaces are set from names
		return m.doc.Clone()
	}
	return m.doc.Successor()
}

// propose stores the shared part of a document for the group, and reports whether it differs from the present one.
// The caller holds mu.
func propose(m *Manager, want *config.Document) (bool, error) {
	if m.cfg.Group == nil {
		return false, nil
	}
	shared := want.Shared()
	if !m.lost && len(config.Diff(m.shared, shared)) == 0 && sameErasing(m.shared, want) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(m.context, groupTime)
	defer cancel()
	revision, err := m.cfg.Group.Propose(ctx, m.revision, shared)
	switch {
	case errors.As(err, new(*ConflictError)):
		return false, errOutdated
	case err != nil:
		return false, &GroupError{err}
	}
	m.revision, m.shared, m.lost = revision, shared, false
	return true, nil
}

// An attempt is one attempt to make an edit.
type attempt struct {
	from     int64 // revision of the document that was edited
	proposed bool  // the edited document was stored for the group
}

// begin returns the document to edit. The caller holds mu.
func (a *attempt) begin(m *Manager) *config.Document {
	a.from = m.revision
	return toEdit(m)
}

// latestTime is the time limit for asking the group's store for a later document.
const latestTime = 2 * time.Second

// isOutdated reports whether an edit that changed nothing, or was refused, has to be tried again with a later
// document. Otherwise a grant that another gateway has just made would not be withdrawn here, or an object that it
// has added would not be found. If the group's store does not answer, the result stands. A whole document is never
// tried again: the one with which a gateway starts lacks everything that the group shares.
func (a *attempt) isOutdated(m *Manager, o Options, out *Outcome, refused error) bool {
	if m.cfg.Group == nil || o.whole || a.proposed || refused == nil && len(out.Changes) > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(m.context, latestTime)
	defer cancel()
	latest, _, err := m.cfg.Group.Latest(ctx)
	return err == nil && latest > a.from
}

// Follow makes the target of a Manager what the group's document says, and returns the document's revision. Faulty
// namespaces and hosts wait, as at a start. If the store has lost the document, or has an earlier one, the target
// stays as it is.
func Follow(ctx context.Context, m *Manager) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, groupTime)
	defer cancel()
	before, _ := Revision(m)
	revision, doc, err := m.cfg.Group.Latest(ctx)
	if err == nil && revision < before {
		err = &LostError{fmt.Errorf("the store has revision %d, but this gateway has revision %d, so the store was probably restored from a backup: restart all gateways; "+
			"if the store has revision 0, which means none, run nvmeof target export first, and apply that with nvmeof target apply", revision, before)}
	}
	if noteLost(m, err); err != nil {
		return 0, &GroupError{err}
	}
	if revision > 0 && doc.Version != config.Version { // the shared part has no version
		return 0, &GroupError{fmt.Errorf("revision %d has version %d, and this gateway knows version %d: upgrade the gateway", revision, doc.Version, config.Version)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return 0, ErrClosed
	case revision < m.revision, revision == m.revision && m.behind == nil: // another call was faster
		return m.revision, m.behind
	}
	m.revision, m.shared = revision, doc.Shared()
	m.behind = catchUp(m)
	return revision, m.behind
}

// A LostError reports that the group's store has lost its documents. A gateway that has the last one can propose
// the next if the store has none at all.
type LostError struct{ Err error }

func (e *LostError) Error() string { return e.Err.Error() }

func (e *LostError) Unwrap() error { return e.Err }

// noteLost records whether the group's store has lost its document. If so, even an unchanged document is proposed.
func noteLost(m *Manager, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lost := errors.As(err, new(*LostError)); lost || err == nil {
		m.lost = lost
	}
}

// catchUp makes the target what the group's document says. The caller holds mu.
func catchUp(m *Manager) error {
	want := successor(m)
	want.TakeShared(m.shared)
	if _, err := want.Check(); err != nil {
		return fmt.Errorf("revision %d of the group's configuration does not fit this gateway: %w", m.revision, err)
	}
	o := Options{Force: true, Wait: true}
	m.beginChange(o)
	changes := config.Diff(m.doc, want)
	m.name(want)
	if err := m.perform(changes, o); err != nil {
		m.name(m.doc)
		return err
	}
	settle(m, want, changes)
	return nil
}

// settle records the result of a change; the target then agrees with the group's document. The caller holds mu.
func settle(m *Manager, want *config.Document, changes []config.Change) {
	m.stores.unused(m.doc, want)
	m.doc, m.behind = want, nil
	for _, c := range changes {
		m.log.Info("configuration", zap.Stringer("step", c))
	}
	noteDenied(m, changes)
	noteChanges(m, changes)
}

// Revision returns the revision of the group's document that the target follows. behind says why the target differs
// from the document; nil: it does not.
func Revision(m *Manager) (revision int64, behind error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision, m.behind
}
