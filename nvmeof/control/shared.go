package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A Group is where gateways have the subsystems and referrals that they share: one document
// after another, each with a revision that is greater than those before.
type Group interface {
	// Propose makes a document, which does not change, the group's, if the one that it has is of revision base;
	// 0: if it has none. Otherwise the error is a [ConflictError].
	Propose(ctx context.Context, base int64, doc *config.Document) (revision int64, err error)
	// Latest is the document that the group has, whose namespaces do not change; revision 0: it has none.
	Latest(ctx context.Context) (revision int64, doc *config.Document, err error)
	// Followed returns when each gateway that may serve something has enforced a revision in a namespace: see
	// Enforce. With an error, which names one that has not, that is not so when ctx ends.
	Followed(ctx context.Context, revision int64, at NamespaceRef) error
}

// A ConflictError says that another gateway has changed the group's document meanwhile.
type ConflictError struct{ Base int64 }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("the group's configuration is not that of revision %d any more: another gateway has changed it; nothing was changed, try again", e.Base)
}

// A GroupError is that the group's document could not be changed or read.
type GroupError struct{ Err error }

func (e *GroupError) Error() string { return "the group's configuration: " + e.Err.Error() }

func (e *GroupError) Unwrap() error { return e.Err }

// errOutdated is that the group's document is another than that which the edit began with.
var errOutdated = errors.New("the group's configuration was changed meanwhile")

const (
	// groupTime is how long the group's store has for a document.
	groupTime = 10 * time.Second
	// groupTries is how often an edit begins again since another gateway was faster.
	groupTries = 5
)

// own is the part of a document that is this target's alone: all of it without a group.
func own(m *Manager, doc *config.Document) *config.Document {
	if m.cfg.Group == nil {
		return doc
	}
	part := *doc
	part.Subsystems, part.Referrals, part.Erasing = nil, nil, nil
	return part.Clone()
}

// toEdit is what an edit begins with: what the target is, and where it is not what the group's document
// says, that document. So what others have changed is kept, and an edit can mend it. Called with mu held.
func toEdit(m *Manager) *config.Document {
	doc := successor(m)
	if m.behind != nil {
		doc.TakeShared(m.shared)
	}
	return doc
}

// successor is a document to make another of than the target is. Called with mu held.
func successor(m *Manager) *config.Document {
	if len(m.cfg.Names) > 0 { // which give namespaces their UUIDs
		return m.doc.Clone()
	}
	return m.doc.Successor()
}

// propose makes the shared part of a document the group's, and reports whether that was another.
// Called with mu held.
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

// An attempt is one of an edit.
type attempt struct {
	from     int64 // the revision of what was edited
	proposed bool  // what it was edited to is the group's
}

// begin is what is edited. Called with mu held.
func (a *attempt) begin(m *Manager) *config.Document {
	a.from = m.revision
	return toEdit(m)
}

// latestTime is how long the group's store has to say whether there is a later document.
const latestTime = 2 * time.Second

// isOutdated reports whether an edit that has changed nothing, or was refused, is to be made of a later document: what
// another gateway has granted a moment ago is not withdrawn here, and what it has added is not missing. Where the group's
// store does not answer what is known here counts. A whole document is none of a later one: that with which a gateway starts
// lacks all that is the group's.
func (a *attempt) isOutdated(m *Manager, o Options, out *Outcome, refused error) bool {
	if m.cfg.Group == nil || o.whole || a.proposed || refused == nil && len(out.Changes) > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(m.context, latestTime)
	defer cancel()
	latest, _, err := m.cfg.Group.Latest(ctx)
	return err == nil && latest > a.from
}

// Follow makes the target of a Manager what the group's document says, and returns the document's
// revision. Faulty namespaces and hosts wait, as at a start. The target stays as it is where the store has
// lost the document, or has an earlier one.
func Follow(ctx context.Context, m *Manager) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, groupTime)
	defer cancel()
	before, _ := Revision(m)
	revision, doc, err := m.cfg.Group.Latest(ctx)
	if err == nil && revision < before {
		err = &LostError{fmt.Errorf("the store has revision %d, and this gateway goes on with revision %d: was the store restored from a copy? Start all gateways again; "+
			"if it has revision 0, which is none, nvmeof target export, and nvmeof target apply that", revision, before)}
	}
	if noteLost(m, err); err != nil {
		return 0, &GroupError{err}
	}
	if revision > 0 && doc.Version != config.Version { // which the shared part of it does not show
		return 0, &GroupError{fmt.Errorf("revision %d is of version %d, of which this gateway knows %d: upgrade it", revision, doc.Version, config.Version)}
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

// A LostError is that the group's store has lost documents that there were. Whoever has the last one can propose one after it, if
// the store has none at all.
type LostError struct{ Err error }

func (e *LostError) Error() string { return e.Err.Error() }

func (e *LostError) Unwrap() error { return e.Err }

// noteLost remembers whether the group's store has lost its document: then also what is not changed is to be put there.
func noteLost(m *Manager, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if lost := errors.As(err, new(*LostError)); lost || err == nil {
		m.lost = lost
	}
}

// catchUp makes the target what the group's document says. Called with mu held.
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

// settle notes what a change has come to, which is also what the group's document says. Called with mu
// held.
func settle(m *Manager, want *config.Document, changes []config.Change) {
	m.stores.unused(m.doc, want)
	m.doc, m.behind = want, nil
	for _, c := range changes {
		m.log.Info("configuration", zap.Stringer("step", c))
	}
	noteDenied(m, changes)
	noteChanges(m, changes)
}

// Revision is the revision of the group's document that the target follows. behind says why the
// target differs from the document; nil: it does not.
func Revision(m *Manager) (revision int64, behind error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision, m.behind
}
