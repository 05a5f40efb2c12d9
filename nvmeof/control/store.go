package control

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/block"
	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/backend/rbd"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// OpenStore opens the store of a namespace with a new [Opener].
func OpenStore(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
	return NewOpener().Open(n, pool)
}

// An Opener opens the stores of namespaces. Images of a Ceph cluster that are opened as the same user share a
// client, and files and devices share the threads that the process may have. The zero value does not limit these. Open
// may be called from any goroutine.
type Opener struct {
	images  rbd.Clients
	workers *file.Workers
}

// NewOpener returns an opener. A process needs one.
func NewOpener() *Opener { return &Opener{workers: file.NewWorkers()} }

// Open opens the store of a namespace, and returns notes about it for the administrator. Memory is allocated in the
// pool. If pool is nil, it ends with this process.
func (o *Opener) Open(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
	switch {
	case n.Memory != nil:
		s, err := memory.New(memory.Config{Size: int64(n.Memory.Size), BlockSize: cmp.Or(n.BlockSize, 512), Pool: pool})
		return s, nil, err
	case n.Block != nil:
		s, err := block.Open(string(n.Block.Path), block.Config{BlockSize: n.BlockSize, ReadOnly: n.Block.ReadOnly,
			Buffered: n.Block.Buffered, Force: n.Block.Force, Options: o.options(n.Block.Engine)})
		if err != nil {
			return nil, nil, err
		}
		return s, s.Notes(), nil
	}
	if n.RBD != nil {
		s, err := rbd.Open(n.RBD.Image, rbd.Config{Clients: &o.images, Conf: string(n.RBD.Conf), ID: n.RBD.ID, Size: int64(n.RBD.Size),
			BlockSize: cmp.Or(n.BlockSize, 512), ReadOnly: n.RBD.ReadOnly})
		if err != nil {
			return nil, nil, err
		}
		return s, nil, nil
	}
	if n.File == nil {
		return nil, nil, errNoExport
	}
	opts := o.options(n.File.Engine)
	s, err := file.Open(string(n.File.Path), file.Config{Size: int64(n.File.Size), BlockSize: cmp.Or(n.BlockSize, 512),
		ReadOnly: n.File.ReadOnly, Buffered: n.File.Buffered, Thin: n.File.Thin, Force: n.File.Force,
		Engine: opts.Engine, LockedThreads: opts.LockedThreads, Workers: opts.Workers})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Notes(), nil
}

// errNoExport does not occur with a document that was checked.
var errNoExport = errors.New("control: the namespace exports nothing: give it memory, a file, a device or an image")

// options returns the options of a target's store with engine e. The target locks its loops to their threads for
// the store, but not on a machine with a single processor. There the loops sleep whenever they are idle, which is
// slow with locked threads.
func (o *Opener) options(e config.Engine) file.Options {
	engine, _ := file.ParseEngine(cmp.Or(string(e), "auto")) // Parse has checked it
	return file.Options{Engine: engine, LockedThreads: runtime.NumCPU() > 1, Workers: o.workers}
}

// absent reports whether an error says that a file, a device or an address does not exist now; it may later.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.ENODEV) ||
		errors.Is(err, syscall.ENOMEDIUM) || errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// A storeKey identifies a store by its path, or for memory by the namespace.
type storeKey string

func keyOf(nqn nvmeof.NQN, n *config.Namespace) storeKey {
	if p := n.Path(); p != "" {
		return storeKey(p)
	}
	return storeKey(fmt.Sprintf("%s\x00%d", string(nqn), n.NSID))
}

// A heldStore is an open store with the number of namespaces that use it. An unused one is kept until the change
// that removed the last namespace is complete, so that the change can be undone.
type heldStore struct {
	store backend.Store
	as    *config.Namespace // namespace with whose options it was opened
	users int
	// created says that the current change created the file. undoNote then removes the note of the file.
	created  bool
	undoNote func() error

	marked atomic.Bool // the group has a fault of it, and it accepts no writes

	was     []byte   // mark of its file when it was last opened; nil: none
	notes   []string // notes for the administrator
	noteErr error    // why there is no note of the file or disk
}

// stores are the open stores. The Manager's mutex guards them.
type stores struct {
	reacher
	log  *zap.Logger
	open func(*config.Namespace, *memory.Pool) (backend.Store, []string, error)
	pool *memory.Pool // for namespaces in memory
	held map[storeKey]*heldStore
	// aside has memory that the current change has replaced, until the change is complete. Unlike a file, it could
	// not be opened again if the change is undone.
	aside map[storeKey]*heldStore
	ahead map[storeKey]*ahead // stores that are opened without the mutex
	// openedLate is called with a store whose opening exceeded the time limit, from another goroutine and without the
	// mutex.
	openedLate func(storeKey, *heldStore)
	// awaited reports whether a namespace waits for a store with these options.
	awaited func(storeKey, *config.Namespace) bool
	// asked reports whether an administrator adds a namespace that was not there, and so knows what is at its path.
	// It is nil if there is none, as at a start. A file is also opened again when another option of its namespace
	// changes; that does not count.
	asked  func(*config.Namespace) bool
	known  known
	notes  FileNotes // notes of gateways, used in place of known; nil: the target is not a gateway
	faults faultBook
	// continued says that another process has served the stores that are opened: nothing is created.
	continued bool
	// failed is why stores that are not open now accepted no writes when they were last open, in this process or
	// the previous one.
	failed map[storeKey]string
	// moved is memory of another process that is not open yet.
	moved map[storeKey]movedMemory
	// used are the files of the document in which this process has stored reservations, or of which an
	// administrator knows that they begin empty.
	used map[config.Path]bool
}

// A movedMemory is the place of another process's memory in the pool.
type movedMemory struct {
	offset int64
	as     *config.Namespace
}

// A missingFileError reports a missing file whose contents hosts may know. From an empty file with the same identity they
// would read zeroes.
type missingFileError struct {
	path string
	size config.Size
	why  error
}

var errKnown = errors.New("it was there before")

func (e *missingFileError) Error() string {
	return fmt.Sprintf("%s is missing (%v): hosts would read zeroes instead of their data; "+
		"restore it, or create an empty one: truncate -s %d %s", e.path, e.why, int64(e.size), shell.Quote(e.path))
}

func (e *missingFileError) Unwrap() error { return fs.ErrNotExist }

// A shortFileError reports a file that is shorter than before. If it were extended to its size, hosts would read zeroes.
type shortFileError struct {
	path     string
	has, had int64 // bytes
}

func (e *shortFileError) Error() string {
	return fmt.Sprintf("%s has %d bytes, and had %d: hosts would read zeroes instead of the rest of their data; "+
		"restore it, or replace it by an empty file: rm %s; truncate -s %d %[4]s", e.path, e.has, e.had, shell.Quote(e.path), e.had)
}

// wanted reports whether an administrator adds a namespace with whatever is at its path.
func (s *stores) wanted(n *config.Namespace) bool { return s.asked != nil && s.asked(n) }

// gone returns an error if data of a namespace would be lost if its store were opened now. It returns nil if the
// store is already open with the same options, or if the namespace is wanted.
func (s *stores) gone(nqn nvmeof.NQN, n *config.Namespace) error {
	if h := s.held[keyOf(nqn, n)]; h != nil && n.SameStore(h.as) || s.wanted(n) {
		return nil
	}
	return s.ask(n.Path(), func() error { return s.goneNow(n) })
}

// goneNow is gone for a store that is not open.
func (s *stores) goneNow(n *config.Namespace) error {
	if s.isNoted(n) {
		return s.goneAway(n)
	}
	return s.known.gone(n)
}

// mark returns the mark of the file of a namespace; if the file system does not answer, the last known one.
func (s *stores) mark(n *config.Namespace) []byte {
	if s.isNoted(n) {
		if note := s.notes.Known(n.Path()); note.Revision > 0 && !note.Making {
			return note.Mark
		}
	}
	mark, err := reach(&s.reacher, n.Path(), func() ([]byte, error) { return s.known.mark(n), nil }, nil)
	if err != nil {
		mark, _ = reach(&s.reacher, config.Path(s.known), func() ([]byte, error) {
			was, _ := s.known.read(n)
			return was.mark, nil
		}, nil)
	}
	return mark
}

// detached reports whether the data of an open store could not be found again after it is closed.
func (s *stores) detached(key storeKey) bool { return s.detachment(key) != nil }

// detachment returns why that is so. It returns nil if it is not, or if that is unknown.
func (s *stores) detachment(key storeKey) error {
	h := s.held[key]
	if h == nil {
		return nil
	}
	d, ok := h.store.(backend.Detacher)
	if !ok {
		return nil
	}
	why, err := reach(&s.reacher, h.as.Path(), func() (error, error) { return d.Detached(), nil }, nil)
	if err != nil {
		return nil
	}
	return why
}

// continueFrom takes over the memory and the failures of another Manager.
func (s *stores) continueFrom(x *Moved) {
	s.continued = true
	for key, why := range x.Failed {
		s.failed[storeKey(key)] = why
	}
	if x.Memory == nil {
		return
	}
	s.pool, s.moved = x.Memory, map[storeKey]movedMemory{}
	for _, d := range x.Document.Subsystems {
		for _, n := range d.Namespaces {
			key := keyOf(d.NQN, n)
			if offset, ok := x.Offsets[string(key)]; ok {
				s.moved[key] = movedMemory{offset, n}
			}
		}
	}
	if x.Target == nil { // nobody will take it back
		s.pool.Own()
	}
}

// acquire returns the store of a namespace, and counts its use. It opens the store if necessary.
func (s *stores) acquire(nqn nvmeof.NQN, n *config.Namespace) (backend.Store, error) {
	h, err := s.prepare(nqn, n)
	if err != nil {
		return nil, err
	}
	h.users++
	return h.store, nil
}

// prepare returns the store of a namespace without counting a use. It opens the store if necessary.
func (s *stores) prepare(nqn nvmeof.NQN, n *config.Namespace) (*heldStore, error) {
	key := keyOf(nqn, n)
	if h := s.held[key]; h != nil {
		if h.users > 0 || n.SameStore(h.as) {
			return h, nil
		}
		h.created = false
		if why := failureOf(h); why != "" {
			s.failed[key] = why
		}
		if err := s.vacate(key); err != nil {
			return nil, err
		}
	}
	if h := s.aside[key]; h != nil && n.SameStore(h.as) {
		delete(s.aside, key)
		s.held[key] = h
		return h, nil
	}
	if x, moved := s.moved[key]; moved && n.SameStore(x.as) {
		store, err := s.pool.Open(x.offset)
		if err != nil {
			return nil, err
		}
		delete(s.moved, key)
		h := &heldStore{store: store, as: n}
		s.hold(key, h)
		return h, nil
	}
	if h, err := s.takeAhead(key, n); h != nil || err != nil {
		if err == nil {
			s.hold(key, h)
		}
		return h, err
	}
	wanted := s.wanted(n)
	limit := s.time()
	h, err := reachFor(&s.reacher, limit, n.Path(), func() (*heldStore, error) { return s.openNow(n, wanted) }, func(h *heldStore) {
		h.keepSlow(limit)
		s.openedLate(key, h)
	})
	if err != nil {
		return nil, err
	}
	s.hold(key, h)
	return h, nil
}

// vacate makes room for another store with the same key.
func (s *stores) vacate(key storeKey) error {
	h := s.held[key]
	if h.as.Memory == nil || s.aside[key] != nil {
		return s.drop(key) // a file must be unlocked before it is opened with other options
	}
	delete(s.held, key)
	s.aside[key] = h
	return nil
}

// hold adds an opened store to those that are held.
func (s *stores) hold(key storeKey, h *heldStore) {
	path := zap.String("export", string(h.as.Path()))
	if h.noteErr != nil && s.known != "" {
		s.log.Warn("identity of a file or device could not be recorded: a later start would not notice if it is missing or replaced", path, zap.Error(h.noteErr))
	}
	if h.created {
		s.log.Warn("file was missing and has been created: the namespace is empty", path)
	}
	for _, note := range h.notes {
		s.log.Warn(note, path)
	}
	s.failAgain(key, h)
	s.held[key] = h
}

// notices returns the notes about stores of namespaces that changes have added.
func (s *stores) notices(changes []config.Change) (found config.Problems) {
	for _, c := range changes {
		now, is := c.New.(*config.Namespace)
		if !is || c.Op != config.Add {
			continue
		}
		if h := s.held[keyOf(c.Subsystem, now)]; h != nil {
			found = append(found, notices(namespaceName(namespaceKey{c.Subsystem, now.NSID}), doubtsAbout(h.store, h.notes))...)
		}
	}
	return found
}

// openNow opens the store of a namespace. wanted says that an administrator adds the namespace with whatever is at
// its path. openNow accesses file systems and devices, and uses nothing that the mutex guards.
func (s *stores) openNow(n *config.Namespace, wanted bool) (*heldStore, error) {
	h, err := s.openSound(n, wanted)
	if err == nil {
		if failed := cmp.Or(s.unshared(h), s.apply(h)); failed != nil {
			return nil, errors.Join(failed, h.close())
		}
	}
	return h, err
}

// openSound is openNow without regard to earlier failures.
func (s *stores) openSound(n *config.Namespace, wanted bool) (*heldStore, error) {
	if s.isNoted(n) {
		return s.openNoted(n)
	}
	if !wanted {
		if err := s.known.gone(n); err != nil {
			return nil, err
		}
	}
	kept := n.File != nil && n.File.Size > 0
	created := kept && missing(n.Path())
	if created && s.continued && !wanted {
		return nil, &missingFileError{string(n.Path()), n.File.Size, errKnown}
	}
	if err := mayOpen(); err != nil {
		return nil, err
	}
	made := s.make(n, !created)
	store, notes, err := s.open(n, s.pool)
	made()
	if err != nil {
		return nil, err
	}
	h := &heldStore{store: store, as: n, created: created, notes: notes}
	if was, _ := s.known.read(n); n.File != nil {
		h.was = was.mark
	}
	if n.Block != nil {
		h.noteErr = s.known.addDisk(n.Path(), block.Identity(string(n.Path())))
	}
	if kept {
		h.undoNote, h.noteErr = s.known.add(n)
		if h.noteErr != nil && created && !wanted && n.HasIdentity() { // the next start would not know that it existed
			return nil, &missingFileError{string(n.Path()), n.File.Size, errors.Join(h.noteErr, h.close())}
		}
	}
	return h, nil
}

// close closes the store. If the file was created for a change that failed, it first removes the file, while it is
// still locked.
func (h *heldStore) close() (err error) {
	if h.created {
		err = errors.Join(h.undoNote(), os.Remove(string(h.as.Path())))
	}
	return errors.Join(err, h.store.Close())
}

// keepSlow keeps the file of a change that failed at its time limit, if that was spent on allocating the file: the next
// attempt finds it. It would take as long again otherwise, and fail again.
func (h *heldStore) keepSlow(limit time.Duration) {
	if f, ok := h.store.(interface{ Reserving() time.Duration }); ok && f.Reserving() > limit/2 {
		h.created = false
	}
}

// note records the length of a file that was extended.
func (s *stores) note(n *config.Namespace, h *heldStore) {
	if s.isNoted(n) {
		if err := s.noteSize(n, h); err != nil {
			s.log.Warn("length of the file could not be recorded for other gateways", zap.String("export", string(n.Path())), zap.Error(err))
		}
		return
	}
	if n.File == nil || n.File.Size == 0 || s.known == "" {
		return
	}
	if _, err := s.known.add(n); err != nil {
		s.log.Warn("length of the file could not be recorded: a later start would not notice if it is shorter",
			zap.String("export", string(n.Path())), zap.Error(err))
	}
}

// release ends the use of a store by a namespace. The store stays open until sweep.
func (s *stores) release(nqn nvmeof.NQN, n *config.Namespace) {
	if h := s.held[keyOf(nqn, n)]; h != nil && h.users > 0 {
		h.users--
	}
}

func missing(p config.Path) bool {
	_, err := os.Lstat(string(p))
	return errors.Is(err, fs.ErrNotExist)
}

// sweep closes the unused stores at the end of a change, and removes files that a failed change created. Memory,
// which could not be opened again, is kept for a namespace that waits.
func (s *stores) sweep() error {
	unused := s.takeUnused()
	s.keepCreated()
	err := s.closeAll(unused)
	for key, h := range s.aside {
		if !s.kept(key, h.as) {
			delete(s.aside, key)
			err = errors.Join(err, h.close())
		} else if s.held[key] == nil {
			delete(s.aside, key)
			s.held[key] = h
		}
	}
	maps.DeleteFunc(s.moved, func(key storeKey, x movedMemory) bool { return !s.kept(key, x.as) })
	return err
}

// takeUnused removes the unused stores, and returns them. The caller must close them.
func (s *stores) takeUnused() (unused []*heldStore) {
	for key, h := range s.held {
		if h.users == 0 && !s.kept(key, h.as) {
			delete(s.held, key)
			unused = append(unused, h)
		}
	}
	return unused
}

// keepCreated marks files that were created as used, so that they are not removed when their stores are closed.
func (s *stores) keepCreated() {
	for _, h := range s.held {
		h.created = false
	}
}

// kept reports whether memory is kept for a namespace that waits.
func (s *stores) kept(key storeKey, as *config.Namespace) bool {
	return as.Memory != nil && s.awaited(key, as)
}

// closeAll closes stores, several at a time, since each may wait for another machine. Those whose files were
// created for a failed change share the folder of notes, and are closed one after another.
func (s *stores) closeAll(unused []*heldStore) error {
	errs := make([]error, len(unused))
	inParallel(openings, len(unused), func(i int) {
		if h := unused[i]; !h.created {
			errs[i] = s.last(h.as.Path(), h.close)
		}
	})
	for i, h := range unused {
		if h.created {
			errs[i] = s.last(h.as.Path(), h.close)
		}
	}
	return errors.Join(errs...)
}

// settle is sweep outside of a change: files that were created are kept.
func (s *stores) settle() error {
	s.keepCreated()
	return s.sweep()
}

func (s *stores) drop(key storeKey) error {
	h := s.held[key]
	delete(s.held, key)
	return s.last(h.as.Path(), h.close)
}

// close closes all stores. Another process may use the memory by now; memory that is not used is freed when this
// process ends.
func (s *stores) close() error {
	err := s.pool.Close()
	var all []*heldStore
	for _, open := range []map[storeKey]*heldStore{s.held, s.aside} {
		for key, h := range open {
			delete(open, key)
			h.created = false
			all = append(all, h)
		}
	}
	return errors.Join(err, s.closeAll(all))
}

// An extender is a store whose file can be extended.
type extender interface {
	Extend(size int64) error
}

// grow extends the file of a namespace. h is its store, or nil. The target notices the new size.
func (s *stores) grow(h *heldStore, n *config.Namespace) error {
	if err := s.mayGrow(h, n); err != nil || n.File.Size == 0 {
		return err // without a size, the file keeps its length
	}
	if h == nil {
		return nil
	}
	x, can := h.store.(extender)
	if !can {
		return fmt.Errorf("%s: its store cannot be extended", n.File.Path)
	}
	defer s.make(n, false)()
	return x.Extend(int64(n.File.Size))
}

// mayGrow returns an error unless the file may be extended. It must be the one that is open, it must not be longer
// than the new size, and its data must not have been lost.
func (s *stores) mayGrow(h *heldStore, n *config.Namespace) error {
	if h != nil {
		if d, ok := h.store.(backend.Detacher); ok && d.Detached() != nil {
			return d.Detached()
		}
	}
	info, err := os.Stat(string(n.File.Path))
	switch {
	case err != nil:
		return err
	case n.File.Size > 0 && info.Size() > int64(n.File.Size):
		return fmt.Errorf("%s has %v, and a store is never shortened: give at least that size", n.File.Path, config.Size(info.Size()))
	}
	return s.goneNow(n)
}
