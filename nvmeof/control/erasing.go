package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// An ErasingError is a namespace that has the number, or exports the store, of one whose data the group is
// erasing. It was not added.
type ErasingError struct {
	Erasing *config.Erasing
	Path    config.Path // that both have; empty: they have the number
}

func (e *ErasingError) Error() string {
	what := fmt.Sprintf("namespace %d of %s is being erased", e.Erasing.Namespace.NSID, e.Erasing.Subsystem)
	if e.Path != "" {
		what = fmt.Sprintf("%s is being erased, as namespace %d of %s", e.Path, e.Erasing.Namespace.NSID, e.Erasing.Subsystem)
	}
	if e.Erasing.Why != "" {
		what += " (which has failed: " + e.Erasing.Why + ")"
	}
	return what + "; nothing was changed. Wait until nvmeof ls does not show that any more, or choose another"
}

// refuseErasing refuses a document with a namespace that has what is being erased.
func refuseErasing(d *config.Document) error {
	if len(d.Erasing) == 0 {
		return nil
	}
	numbers, paths := map[namespaceKey]*config.Erasing{}, map[config.Path]*config.Erasing{}
	for _, e := range d.Erasing {
		numbers[namespaceKey{e.Subsystem, e.Namespace.NSID}], paths[e.Namespace.Path()] = e, e
	}
	for _, s := range d.Subsystems {
		for _, n := range s.Namespaces {
			if e := paths[n.Path()]; e != nil {
				return &ErasingError{e, n.Path()}
			}
			if e := numbers[namespaceKey{s.NQN, n.NSID}]; e != nil {
				return &ErasingError{e, ""}
			}
		}
	}
	return nil
}

// erasingOf is a namespace of a document that is being erased; nil: it is not.
func erasingOf(d *config.Document, nqn nvmeof.NQN, nsid int) *config.Erasing {
	for _, e := range d.Erasing {
		if e.Subsystem == nqn && e.Namespace.NSID == nsid {
			return e
		}
	}
	return nil
}

// sameErasing reports whether the same is being erased by two documents.
func sameErasing(a, b *config.Document) bool {
	return slices.EqualFunc(a.Erasing, b.Erasing, func(x, y *config.Erasing) bool { return sameErased(x, y) && x.Why == y.Why })
}

// sameErased reports whether both are of one namespace with one store.
func sameErased(x, y *config.Erasing) bool {
	return x.Subsystem == y.Subsystem && x.Namespace.NSID == y.Namespace.NSID && x.Namespace.Path() == y.Namespace.Path()
}

// toErase is what the group's document says is being erased, of the ANA groups that this target serves.
func toErase(m *Manager) (mine []*config.Erasing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.shared.Erasing {
		if !isForeign(m, e.Namespace) {
			mine = append(mine, e)
		}
	}
	return mine
}

// erasings are made at a time.
const erasings = 16

// EraseListed erases what the group's document lists as being erased, of the ANA groups that this
// target serves: it removes the file or image of a namespace once no gateway has it open, and then
// the entry in the document. The next owner of the ANA group does what is left: [ReleaseGroup] and
// [DrainGroup] return after the removals in progress have ended. If it fails, the document has the
// reason, and the next call retries. There is one call at a time.
func EraseListed(ctx context.Context, m *Manager) {
	mine := toErase(m)
	inParallel(erasings, len(mine), func(i int) { // each ends in enforceTime and the times of its store and the group's
		e := mine[i]
		log := m.log.With(zap.String("subsystem", string(e.Subsystem)), zap.Int("nsid", e.Namespace.NSID), zap.String("export", exportName(e.Namespace)))
		at := NamespaceRef{e.Subsystem, e.Namespace.NSID}
		if err := followed(ctx, m, at); err != nil {
			log.Info("a namespace is not erased yet", zap.Error(err))
			return
		}
		revision, _, err := m.cfg.Group.Latest(ctx)
		if err != nil {
			log.Info("a namespace is not erased yet", zap.Error(err))
			return
		}
		x := beginErasure(m, e, revision)
		if x == nil { // another gateway was faster, or this one has to follow first
			return
		}
		defer x.leave(m)
		err = eraseStore(m, e.Namespace, x)
		if noted := noteErased(m, e, err); noted != nil {
			log.Warn("that a namespace is erased, or why not, is not noted in the group's store yet", zap.Error(noted))
			return
		}
		if err == nil {
			log.Info("a namespace is erased")
		} else if e.Why != err.Error() {
			log.Warn("a namespace cannot be erased, which is tried again", zap.Error(err))
		}
	})
}

// noteErased has the group's document say that a namespace is erased, or why it is not.
func noteErased(m *Manager, erased *config.Erasing, why error) error {
	_, err := replace(m, func(d *config.Document) error {
		if why == nil {
			d.Erasing = slices.DeleteFunc(d.Erasing, func(e *config.Erasing) bool { return sameErased(e, erased) })
			return nil
		}
		for _, e := range d.Erasing {
			if sameErased(e, erased) {
				e.Why = why.Error()
			}
		}
		return nil
	}, Options{Force: true, Wait: true})
	return err
}

// A pendingError is a namespace that hosts have no more, and that is not erased yet.
type pendingError struct {
	at  NamespaceRef
	why error
}

func (e *pendingError) Error() string {
	return fmt.Sprintf("namespace %d of %s is removed, and its data is not erased yet: %v. The group goes on with that, and nvmeof ls shows it", e.at.NSID, e.at.Subsystem, e.why)
}

func (e *pendingError) Unwrap() error { return e.why }

const (
	// erasedTime is how long Erase waits for the gateway that erases a namespace.
	erasedTime = 15 * time.Second
	// erasedLook is how often it looks.
	erasedLook = 10 * time.Millisecond
)

// awaitErased returns when a namespace that is being erased is erased; with an error it is not yet.
func awaitErased(m *Manager, at NamespaceRef) error {
	if err := followed(m.context, m, at); err != nil {
		return &pendingError{at, err}
	}
	for end := time.Now().Add(m.erasedTime); ; time.Sleep(erasedLook) {
		e := erasingOf(m.present(), at.Subsystem, at.NSID)
		switch {
		case e == nil:
			return nil
		case e.Why != "":
			return &pendingError{at, errors.New(e.Why)}
		case time.Now().After(end), m.context.Err() != nil:
			return &pendingError{at, fmt.Errorf("the gateway that serves ANA group %d has not done it", groupOf(e.Namespace))}
		}
	}
}
