package control

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Options are the options of a change.
type Options struct {
	DryRun bool // only report what would be done
	Save   bool // also save the document
	Force  bool // allow loss of data, and, with Apply, removal of what connected hosts use
	Wait   bool // wait for a store, a host's key or a listener's device that is missing or faulty, instead of failing

	WaitDevice bool // like Wait, but only for a listener's device, if Config.Away says that it is away

	File string // file for Save; default: the one with which the target was started

	empty  bool                               // a store that is added must not have data
	stays  func() error                       // returns an error if the caller no longer waits for the change; nil: unknown
	whole  bool                               // the document is a whole one, so that what it lacks is removed
	coming map[namespaceKey]*config.Namespace // namespaces that the current change adds
	then   func() error                       // called when the target is changed, before the document is saved
	last   func()                             // called when the document is saved, or is not to be saved
}

// An Outcome is the result of a change or of a dry run.
type Outcome struct {
	Changes  []config.Change
	Warnings config.Problems
}

// Apply makes the target what the document says: all of it, or nothing. If the change is not forced, it fails with
// an [InUseError] if the document lacks something that connected hosts use, and with a [LossError] if it destroys
// data. A dry run returns the outcome together with these errors. At a gateway, a document without listeners
// describes the part that all gateways share.
func (m *Manager) Apply(want *config.Document, o Options) (*Outcome, error) {
	o.whole = true
	return replace(m, func(doc *config.Document) error {
		defer func(is []*config.Erasing) { doc.Erasing = is }(doc.Erasing) // Erasing is not the caller's to change
		if m.cfg.Group != nil && !want.Grouped() && len(want.Listeners) == 0 {
			doc.TakeShared(want.Clone()) // the rest belongs to each gateway
			return nil
		}
		*doc = *want.Clone()
		return nil
	}, o)
}

// Edit changes the document, and the target accordingly: all of it, or nothing. If that destroys data and is not
// forced, it fails with a [LossError]; a dry run returns the outcome together with it. What gateways share is
// changed for all of them; then faulty objects at this one wait.
func (m *Manager) Edit(edit func(*config.Document) error, o Options) (*Outcome, error) {
	return replace(m, func(doc *config.Document) error {
		*doc = *doc.Clone()
		return edit(doc)
	}, o)
}

// replace is Edit for an edit that does not modify namespaces, but replaces them.
func replace(m *Manager, edit func(*config.Document) error, o Options) (*Outcome, error) {
	for tries := 1; ; tries++ {
		var made attempt
		out, err := editOnce(m, edit, o, &made)
		if !errors.Is(err, errOutdated) && !made.isOutdated(m, o, out, err) {
			return out, err
		}
		if tries == groupTries {
			revision, _ := Revision(m)
			return nil, &ConflictError{revision}
		}
		if _, err := Follow(m.context, m); err != nil {
			return nil, err
		}
	}
}

// editOnce is one attempt of replace. It returns errOutdated if another gateway was faster.
func editOnce(m *Manager, edit func(*config.Document) error, o Options, made *attempt) (*Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := mayBegin(m, o); err != nil {
		return nil, err
	}
	want := made.begin(m)
	if err := cmp.Or(edit(want), refuseErasing(want)); err != nil {
		return nil, err
	}
	want.AssignGroups()
	warnings, err := checkNext(m.doc, want)
	if err != nil {
		return nil, err
	}
	m.beginChange(o)
	out := &Outcome{Changes: config.Diff(m.doc, want)}
	out.Warnings = slices.Concat(warnings, want.DoubtNames(m.doc), doubtReservations(out.Changes))
	if err := judge(m, want, out.Changes, o); err != nil {
		return planned(out, o), err
	}
	var s *saving
	if o.Save {
		if s, err = m.stage(want, o.File); err != nil {
			return nil, err
		}
		defer s.discard()
		out.Warnings = append(out.Warnings, s.warnings...)
	}
	if o.DryRun {
		notes, err := m.rehearse(out.Changes, o)
		out.Warnings = append(out.Warnings, notes...)
		return out, err
	}
	proposed, err := propose(m, want)
	if made.proposed = proposed; err != nil {
		return nil, err
	}
	o.Wait = o.Wait || proposed // the other gateways have the change, whatever is faulty here
	m.name(want)
	if err = m.perform(out.Changes, o); err != nil {
		m.name(m.doc)
	} else {
		err = followUp(m, want, o)
	}
	if err != nil {
		if proposed {
			m.behind = err
		}
		return nil, err
	}
	before := m.doc
	settle(m, want, out.Changes)
	out.Warnings = slices.Concat(out.Warnings, m.stores.notices(out.Changes), notices("", m.doubts))
	return out, conclude(m, s, before, o)
}

// conclude saves the document of a change that was made, unless s is nil. The caller holds mu.
func conclude(m *Manager, s *saving, before *config.Document, o Options) error {
	if s != nil {
		if err := m.commit(s); err != nil {
			return takeBack(m, before, o, &SaveError{s.name, err, true})
		}
	}
	if o.last != nil {
		o.last()
	}
	if !m.tidied {
		m.tidied = true
		m.stores.known.forgetErased(m.doc)
	}
	return nil
}

// mayBegin returns an error if a change that has obtained the mutex is not to be made. One whose caller has gone
// could undo a later request: a client that gives up a grant withdraws it, and both requests may be waiting for the
// mutex. The caller holds mu.
func mayBegin(m *Manager, o Options) error {
	if m.closed {
		return ErrClosed
	}
	if o.stays == nil {
		return nil
	}
	if err := o.stays(); err != nil {
		return fmt.Errorf("the client no longer waits for the change; nothing was changed: %w", err)
	}
	return nil
}

// checkNext checks a document that replaces another. It leaves out warnings that also apply to the earlier one.
func checkNext(before, want *config.Document) (warnings config.Problems, err error) {
	if warnings, err = want.Check(); err != nil {
		return nil, err
	}
	if len(warnings) > 0 {
		all, _ := before.Check()
		known := make(map[config.Problem]bool, len(all))
		for _, w := range all {
			known[w] = true
		}
		warnings = slices.DeleteFunc(warnings, func(w config.Problem) bool { return known[w] })
	}
	if exportedMemory(want) > exportedMemory(before) {
		warnings = append(warnings, ForeseeMemory(want)...)
	}
	return warnings, nil
}

// judge refuses changes that need a restart, and, unless they are forced, changes that lose data or that remove
// what hosts use. The caller holds mu.
func judge(m *Manager, want *config.Document, changes []config.Change, o Options) error {
	m.markLosses(changes)
	for _, c := range changes {
		if c.Kind == config.KindTarget {
			return &RestartError{c}
		}
	}
	if o.empty {
		if err := refuseData(m, changes); err != nil {
			return err
		}
	}
	if o.Force {
		return nil
	}
	if lost := losses(changes); lost != nil {
		return &LossError{lost}
	}
	if o.whole {
		if lost := usesLost(m.doc, want, m.Controllers()); lost != nil {
			return &InUseError{Uses: lost}
		}
	}
	return nil
}

// planned returns the outcome of a refused change if it is a dry run.
func planned(out *Outcome, o Options) *Outcome {
	if !o.DryRun {
		return nil
	}
	return out
}

// beginChange sets the time limits of a change for stores that hang.
func (m *Manager) beginChange(o Options) {
	m.late, m.doubts = false, nil
	m.stores.begin(m.changeTimeout)
	if o.Wait {
		m.stores.begin(m.startTimeout)
	}
}

// permit returns an error if a change names a file that the process cannot access. At a start it does nothing,
// since each namespace waits on its own. The caller holds mu.
func permit(m *Manager, changes []config.Change, o Options) error {
	if o.Wait {
		return nil
	}
	own := sync.OnceValue(func() map[fileKey]usedFile { return ownFiles(m) })
	for _, c := range changes {
		var read, written []config.Path
		switch now := c.New.(type) {
		case *config.Subsystem:
			written = []config.Path{now.State}
		case *config.Namespace:
			written = []config.Path{now.Path(), now.Reservations}
			if err := refuseOwnFile(m, now, own()); err != nil {
				return &StepError{Step: c, Err: err}
			}
		case *config.Host:
			for _, key := range []config.KeyFile{now.KeyFile, now.ControllerKeyFile} {
				path, _ := key.Expand(m.cfg.Getenv) // an error is reported when it is read
				read = append(read, config.Path(path))
			}
		}
		for i, path := range slices.Concat(read, written) {
			if path == "" {
				continue
			}
			if err := m.stores.ask(path, func() error { return m.cfg.Permit(string(path), i >= len(read)) }); err != nil {
				return &StepError{Step: c, Err: err}
			}
		}
	}
	return nil
}

// name records the listener identifiers of a document, which addresses of wildcards must not use. The caller holds
// mu.
func (m *Manager) name(doc *config.Document) {
	m.named = map[int]bool{}
	for _, l := range doc.Listeners {
		m.named[l.ID] = true
	}
}

// perform makes changes, or undoes those that it has made. To hosts, all are one change. The caller holds mu.
func (m *Manager) perform(changes []config.Change, o Options) error {
	m.stores.asked = m.asked(o)
	defer func() { // an error of the cleanup does not make the change fail
		m.stores.asked = nil
		if err := errors.Join(m.stores.sweep(), m.sweepDevices()); err != nil {
			m.log.Error("closing what a change no longer needs failed", zap.Error(err))
		}
	}()
	if err := m.prepare(changes, o); err != nil {
		return err
	}
	o.coming = coming(changes)
	if o.Wait && m.cfg.Keeper == nil {
		m.misplaced = findMisplaced(&m.stores.reacher, o.coming)
	}
	waited, keyless := maps.Clone(m.waiting), maps.Clone(m.keyless)
	err := m.target.Change(func() error {
		var refused *StepError
		for i, c := range changes {
			err := m.step(c, o)
			if err != nil && o.Wait && awaitListener(m, c, err) {
				refused = cmp.Or(refused, &StepError{Step: c, Err: err})
				continue
			}
			if err != nil {
				return &StepError{Step: c, Err: err, Undo: m.undo(changes[:i], waited, keyless)}
			}
		}
		if refused == nil || listens(m) {
			return nil
		}
		refused.Undo = m.undo(changes, waited, keyless)
		return refused
	})
	if err != nil {
		m.name(m.doc)
		m.followAll()
	}
	return err
}

// asked returns a function that reports whether an administrator adds a namespace and so knows what is at its path.
// These are the namespaces that the document did not have; with Force all.
func (m *Manager) asked(o Options) func(*config.Namespace) bool {
	if o.Wait {
		return nil
	}
	before := m.doc
	return func(n *config.Namespace) bool { return o.Force || !has(before, n) }
}

// has reports whether hosts may know a namespace from a document: one with the same path and identifiers.
func has(doc *config.Document, n *config.Namespace) bool {
	for _, s := range doc.Subsystems {
		for _, x := range s.Namespaces {
			if x.Path() == n.Path() && x.UUID == n.UUID && x.NGUID == n.NGUID && x.EUI64 == n.EUI64 {
				return true
			}
		}
	}
	return false
}

// markLosses marks the removals that close a file which is no longer at its path: its data would be lost. The
// caller holds mu.
func (m *Manager) markLosses(changes []config.Change) {
	more := map[storeKey]int{} // change of the number of namespaces that use a store as it is open
	for _, c := range changes {
		if n, ok := c.Old.(*config.Namespace); ok && c.Op == config.Remove {
			more[keyOf(c.Subsystem, n)]--
		}
		if n, ok := c.New.(*config.Namespace); ok && c.Op == config.Add {
			if h := m.stores.held[keyOf(c.Subsystem, n)]; h != nil && n.SameStore(h.as) {
				more[keyOf(c.Subsystem, n)]++
			}
		}
	}
	stays := func(key storeKey) bool {
		h := m.stores.held[key]
		return h != nil && h.users+more[key] > 0
	}
	for i, c := range changes {
		if n, ok := c.Old.(*config.Namespace); ok && c.Op == config.Remove && n.File != nil {
			key := keyOf(c.Subsystem, n)
			changes[i].Loses = c.Loses || !stays(key) && m.stores.detached(key)
		}
	}
}

// coming returns the namespaces that changes add.
func coming(changes []config.Change) map[namespaceKey]*config.Namespace {
	added := map[namespaceKey]*config.Namespace{}
	for _, c := range changes {
		if n, ok := c.New.(*config.Namespace); ok && c.Op == config.Add {
			added[namespaceKey{c.Subsystem, n.NSID}] = n
		}
	}
	return added
}

// prepare does the parts of the changes that can fail without affecting hosts: it opens new stores, unless an old
// one must be closed first, and reads keys.
func (m *Manager) prepare(changes []config.Change, o Options) error {
	if err := permit(m, changes, o); err != nil {
		return err
	}
	leaving := map[storeKey]bool{}
	for _, c := range changes {
		n, isNamespace := c.Old.(*config.Namespace)
		if isNamespace && c.Op == config.Remove {
			leaving[keyOf(c.Subsystem, n)] = true
		}
		var err error
		switch now := c.New.(type) {
		case *config.Namespace:
			switch {
			case c.Op != config.Add || isForeign(m, now):
			case leaving[keyOf(c.Subsystem, now)]:
				err = m.stores.gone(c.Subsystem, now)
			default:
				if err = outdated(m, c.Subsystem, now); err == nil {
					_, err = m.stores.prepare(c.Subsystem, now)
				}
			}
			if o.Wait {
				err = nil // the step returns the error again
			}
		case *config.Host:
			if !o.Wait { // otherwise the step reads it
				var doubts []string
				_, doubts, err = m.hostConfig(now)
				m.doubts = append(m.doubts, doubts...)
			}
		}
		if err != nil {
			return &StepError{Step: c, Err: err, advice: advise(c, err)}
		}
	}
	return nil
}

// rehearse returns what a dry run can find without changing anything.
func (m *Manager) rehearse(changes []config.Change, o Options) (found config.Problems, err error) {
	if err := permit(m, changes, o); err != nil {
		return nil, err
	}
	m.stores.asked = m.asked(o)
	defer func() { m.stores.asked = nil }()
	for _, c := range changes {
		var err error
		switch now := c.New.(type) {
		case *config.Subsystem:
			if was, _ := c.Old.(*config.Subsystem); c.Kind == config.KindSubsystem && now.State != "" && (was == nil || was.State != now.State) {
				err = m.stores.ask(now.State, func() error { return m.stores.known.checkState(now.State) })
			}
		case *config.Namespace:
			switch {
			case isForeign(m, now): // the gateway that serves it reports errors
			case c.Kind == config.KindSize:
				if now.File != nil && m.waiting[namespaceKey{c.Subsystem, now.NSID}] == nil {
					h := m.stores.held[keyOf(c.Subsystem, now)]
					err = m.stores.ask(now.Path(), func() error { return m.stores.mayGrow(h, now) })
				}
			case c.Op == config.Add && m.stores.held[keyOf(c.Subsystem, now)] == nil:
				var notes []string
				notes, err = reach(&m.stores.reacher, now.Path(), func() ([]string, error) { return foreseeStore(now) }, nil)
				found = append(found, notices(namespaceName(namespaceKey{c.Subsystem, now.NSID}), notes)...)
			}
			if err == nil && c.Op == config.Add {
				err = m.stores.gone(c.Subsystem, now)
			}
			if err == nil && c.Op == config.Add && now.Reservations != "" {
				err = m.stores.ask(now.Reservations, func() error { return m.stores.known.checkReservations(c.Subsystem, now) })
			}
			if err == nil && c.Op == config.Add {
				err = m.stores.reservationsGone(now)
			}
		case *config.Host:
			var doubts []string
			_, doubts, err = m.hostConfig(now)
			found = append(found, notices("host "+string(now.NQN), doubts)...)
		}
		if err != nil && !o.Wait {
			return found, &StepError{Step: c, Err: err, advice: advise(c, err)}
		}
	}
	return found, nil
}

// advise returns what to do about an error.
func advise(c config.Change, err error) string {
	if n, ok := c.New.(*config.Namespace); ok && n.File != nil && n.File.Size == 0 && errors.Is(err, fs.ErrNotExist) {
		return ", as size: 10GiB in a configuration, or --size 10GiB"
	}
	return ""
}

// errForgotten is the error of a subsystem that was removed and added again by an undo.
var errForgotten = errors.New("its reservations and write protection that were not saved in a file are lost")

// undo undoes steps, the last one first. It continues if one fails. A namespace that cannot be opened again waits,
// as does a host whose key cannot be read again. That is an error unless it waited before.
func (m *Manager) undo(done []config.Change, waited map[namespaceKey]*wait, keyless map[hostKey]*keyWait) error {
	var back []config.Change
	for _, c := range slices.Backward(done) {
		back = append(back, c.Inverse())
	}
	o := Options{Wait: true, coming: coming(back)}
	var errs []error
	for _, c := range back {
		err := m.step(c, o)
		if err == nil && c.Kind == config.KindSubsystem && c.Op == config.Add {
			err = errForgotten
		}
		if err != nil {
			awaitListener(m, c, err) // it is in the document, so it waits
			errs = append(errs, fmt.Errorf("%v: %w", c, err))
		}
	}
	for at, w := range m.waiting {
		if waited[at] == nil {
			errs = append(errs, fmt.Errorf("%s waits: %s", namespaceName(at), w.why))
		}
	}
	for at, w := range m.keyless {
		if keyless[at] == nil {
			errs = append(errs, fmt.Errorf("%v waits: %s", at, w.why))
		}
	}
	return errors.Join(errs...)
}
