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

// An ErasingError reports a namespace that was not added, since it has the NSID or the store of one whose data the
// group is erasing.
type ErasingError struct {
	Erasing *config.Erasing
	Path    config.Path // store of both; empty: they have the same NSID
}

func (e *ErasingError) Error() string {
	what := fmt.Sprintf("namespace %d of %s is being erased", e.Erasing.Namespace.NSID, e.Erasing.Subsystem)
	if e.Path != "" {
		what = fmt.Sprintf("%s is being erased, as namespace %d of %s", e.Path, e.Erasing.Namespace.NSID, e.Erasing.Subsystem)
	}
	if e.Erasing.Why != "" {
		what += " (the last attempt failed: " + e.Erasing.Why + ")"
	}
	return what + "; nothing was changed. Wait until nvmeof ls no longer shows it, or choose another"
}

// refuseErasing returns an error if a document has a namespace with the NSID or the store of one that is being
// erased.
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

// erasingOf returns the entry of a namespace that is being erased, or nil.
func erasingOf(d *config.Document, nqn nvmeof.NQN, nsid int) *config.Erasing {
	for _, e := range d.Erasing {
		if e.Subsystem == nqn && e.Namespace.NSID == nsid {
			return e
		}
	}
	return nil
}

// sameErasing reports whether two documents have the same entries of namespaces that are being erased.
func sameErasing(a, b *config.Document) bool {
	return slices.EqualFunc(a.Erasing, b.Erasing, func(x, y *config.Erasing) bool { return sameErased(x, y) && x.Why == y.Why })
}

// sameErased reports whether both entries have the same namespace and store.
func sameErased(x, y *config.Erasing) bool {
	return x.Subsystem == y.Subsystem && x.Namespace.NSID == y.Namespace.NSID && x.Namespace.Path() == y.Namespace.Path()
}

// toErase returns the entries of the group's document whose ANA groups this target serves.
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

// erasings is how many namespaces are erased at a time.
const erasings = 16

// EraseListed erases the namespaces that the group's document lists as being erased, of the ANA groups that this
// target serves. When no gateway has the file or image open any more, it removes that, and then the entry in the
// document. The next owner of the ANA group continues where it ended: [ReleaseGroup] and [DrainGroup] return after
// removals in progress have ended. If a removal fails, the document has the reason, and the next call retries. Only
// one call may run at a time.
func EraseListed(ctx context.Context, m *Manager) {
	mine := toErase(m)
	inParallel(erasings, len(mine), func(i int) { // each ends in enforceTime and the times of its store and the group's
		e := mine[i]
		log := m.log.With(zap.String("subsystem", string(e.Subsystem)), zap.Int("nsid", e.Namespace.NSID), zap.String("export", exportName(e.Namespace)))
		at := NamespaceRef{e.Subsystem, e.Namespace.NSID}
		if err := followed(ctx, m, at); err != nil {
			log.Info("namespace cannot be erased yet, and is retried", zap.Error(err))
			return
		}
		revision, _, err := m.cfg.Group.Latest(ctx)
		if err != nil {
			log.Info("namespace cannot be erased yet, and is retried", zap.Error(err))
			return
		}
		x := beginErasure(m, e, revision)
		if x == nil { // another gateway has erased it, or this one does not follow the latest document yet
			return
		}
		defer x.leave(m)
		err = eraseStore(m, e.Namespace, x)
		if noted := noteErased(m, e, err); noted != nil {
			log.Warn("result of erasing a namespace could not be written to the group's store yet", zap.Error(noted))
			return
		}
		if err == nil {
			log.Info("namespace erased")
		} else if e.Why != err.Error() {
			log.Warn("erasing a namespace failed, and is retried", zap.Error(err))
		}
	})
}

// noteErased removes the entry of a namespace from the group's document or, if the erasure failed, stores why.
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

// A pendingError reports a namespace that is removed but not yet erased.
type pendingError struct {
	at  NamespaceRef
	why error
}

func (e *pendingError) Error() string {
	return fmt.Sprintf("namespace %d of %s is removed, but its data is not erased yet: %v. The group keeps trying, and nvmeof ls shows the state", e.at.NSID, e.at.Subsystem, e.why)
}

func (e *pendingError) Unwrap() error { return e.why }

const (
	// erasedTime is how long Erase waits for the gateway that erases a namespace.
	erasedTime = 15 * time.Second
	// erasedLook is how often it checks.
	erasedLook = 10 * time.Millisecond
)

// awaitErased waits until a namespace is erased. It returns an error if that fails or takes too long.
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
			return &pendingError{at, fmt.Errorf("the gateway that serves ANA group %d has not erased it", groupOf(e.Namespace))}
		}
	}
}
