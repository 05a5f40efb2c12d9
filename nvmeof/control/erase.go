package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Erase removes a namespace, every right to it, and its store. The store must be memory, or a file or an image for
// which the document has a size, so that the target may have created it. If it is not forced and connected hosts
// may use the namespace, the error is an [InUseError].
//
// Without a group, the store is removed before the document is saved. After a crash in between, and if it cannot be
// saved, the namespace waits for its file, and can be erased again. In a group, gateways may have the image open until
// they follow the new document. So the document is changed first, and notes that the namespace is being erased: see
// [EraseListed]. An error after that says why it is not erased yet.
func Erase(m *Manager, nqn nvmeof.NQN, nsid int, o Options) (*Outcome, error) {
	return erase(m, nil, func(*config.Document) error { return nil }, nqn, nsid, o)
}

// erase is Erase for a caller that may not name every file. It calls check first.
func erase(m *Manager, who *Caller, check func(*config.Document) error, nqn nvmeof.NQN, nsid int, o Options) (*Outcome, error) {
	var gone *config.Namespace
	if m.cfg.Group == nil {
		o.then = func() error { return eraseStore(m, gone, nil) }
		o.last = func() {
			_ = m.stores.ask(gone.Path(), func() error { m.stores.known.forget(gone); return nil })
		}
	}
	unforced := !o.Force
	o.Force = true // loss of its data is intended
	out, err := replace(m, func(d *config.Document) error {
		if erasingOf(d, nqn, nsid) != nil {
			return nil // a repeated request waits again
		}
		if err := check(d); err != nil {
			return err
		}
		s, err := subsystems(d).find(string(nqn))
		if err != nil {
			return err
		}
		if gone, err = namespaces(s).find(itoa(nsid)); err != nil {
			return err
		}
		if err := mayErase(who, d, gone); err != nil {
			return err
		}
		if used := usersOf(m, s, nsid); unforced && len(used) > 0 {
			return &InUseError{used, true}
		}
		for _, h := range s.Hosts {
			dropRight(h, nsid)
		}
		if m.cfg.Group != nil {
			d.Erasing = append(d.Erasing, &config.Erasing{Subsystem: nqn, Namespace: gone})
		}
		return namespaces(s).remove(itoa(nsid))
	}, o)
	var unsaved *SaveError
	if m.cfg.Group == nil || o.DryRun || err != nil && (!errors.As(err, &unsaved) || !unsaved.Changed) {
		return out, err
	}
	if late := awaitErased(m, NamespaceRef{nqn, nsid}); late != nil {
		return nil, errors.Join(err, late)
	}
	return out, err
}

// mayErase returns an error unless the target may remove the store.
func mayErase(who *Caller, d *config.Document, n *config.Namespace) error {
	no := func(why, fix string) error {
		return config.Problems{{Text: fmt.Sprintf("namespace %d: %s", n.NSID, why), Fix: fix}}
	}
	switch {
	case n.Memory != nil:
		return nil
	case n.Block != nil:
		return no(string(n.Path())+" is a device", "remove the namespace; the next user of the device overwrites the data")
	case n.File != nil && n.File.Size == 0, n.RBD != nil && n.RBD.Size == 0:
		return no(string(n.Path())+" has no size in the configuration, so the target did not create it", "remove the namespace, then delete it yourself")
	}
	if s, other := sharing(d, n); other != nil {
		return no(fmt.Sprintf("namespace %d of %s exports it too", other.NSID, s.NQN), "remove that namespace first")
	}
	if within(d.Sandbox.Paths, string(n.Path())) {
		return nil
	}
	return who.may(RoleAdmin, nvmeof.Printable(string(n.Path()))+" is in no directory of sandbox.paths in the configuration: erasing it")
}

// sharing returns another namespace of the document that exports the same file, device or image.
func sharing(d *config.Document, n *config.Namespace) (*config.Subsystem, *config.Namespace) {
	for _, s := range d.Subsystems {
		for _, other := range s.Namespaces {
			if other != n && other.Path() == n.Path() {
				return s, other
			}
		}
	}
	return nil, nil
}

// usersOf returns descriptions of the connected hosts that may use a namespace.
func usersOf(m *Manager, s *config.Subsystem, nsid int) (used []string) {
	for _, c := range m.Controllers() {
		if c.Subsystem == s.NQN && sees(s, c.Host, nsid) && !isUnauthenticated(s, &c) {
			used = append(used, fmt.Sprintf("namespace %d of %s, of host %s", nsid, s.NQN, c.Host))
		}
	}
	return used
}

// eraseStore removes what a namespace exported, after the store was closed. x is the erasure that it is part of, or
// nil.
func eraseStore(m *Manager, n *config.Namespace, x *erasure) error {
	ask := func(f func() error) error {
		r := &m.stores.reacher
		x.enter(m)
		_, err := reachFor(r, r.timeOf(m.changeTimeout), n.Path(), func() (struct{}, error) {
			defer x.leave(m)
			return struct{}{}, f()
		}, nil)
		if refused(err) { // f was not called
			x.leave(m)
		}
		return err
	}
	if n.RBD != nil {
		return ask(func() error { return m.cfg.RemoveImage(n.RBD) })
	}
	if n.File == nil {
		return nil
	}
	return ask(func() error {
		err := removeFile(string(n.Path())) // an earlier attempt may have removed it
		if at := file.MarkFile(string(n.Path())); err == nil && at != "" {
			err = namedfile.Remove(at)
		}
		switch {
		case err != nil:
			return err
		case x != nil:
			m.stores.known.forget(n)
		default:
			m.stores.known.noteErased(n)
		}
		return nil
	})
}

// removeFile removes a file. If it is a symbolic link, it also removes its destination, which has the data.
func removeFile(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		file, err := filepath.EvalSymlinks(path)
		if err == nil {
			err = namedfile.Remove(file)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return namedfile.Remove(path)
}

// takeBack puts a namespace back whose store was removed, and whose removal could not be saved: it waits for its store,
// as after a restart. Otherwise a repeated request would not find it, and nobody would save that it is gone. The caller
// holds mu.
func takeBack(m *Manager, before *config.Document, o Options, unsaved *SaveError) error {
	if o.then == nil {
		return unsaved
	}
	changes := config.Diff(m.doc, before)
	m.name(before)
	if err := m.perform(changes, Options{Wait: true}); err != nil {
		return errors.Join(unsaved, err)
	}
	settle(m, before, changes)
	return fmt.Errorf("%w; the data of the namespace is erased, but the namespace remains until its removal can be saved: erase it again", unsaved)
}

// followUp calls Options.then. If that fails, it undoes the change. The caller holds mu.
func followUp(m *Manager, want *config.Document, o Options) error {
	if o.then == nil {
		return nil
	}
	err := o.then()
	if err == nil {
		return nil
	}
	m.name(m.doc)
	return errors.Join(err, m.perform(config.Diff(want, m.doc), Options{Wait: true}))
}
