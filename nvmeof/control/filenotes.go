package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/block"
	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// FileNotes stores, for all gateways of a group, which files of namespaces existed, and which disks. Thus a file is
// created only once, whichever gateway serves it, and all gateways present the same one to hosts. A note belongs to
// a path, as long as the group's document has a namespace with it.
type FileNotes interface {
	// Gateway returns the name of this gateway.
	Gateway() string
	// Get reads the note of a path. Revision 0 means that there is none.
	Get(ctx context.Context, p config.Path) (FileNote, error)
	// Put replaces the note with n.Revision by n, and returns n with its new revision. It returns an error if
	// another gateway was faster.
	Put(ctx context.Context, n FileNote) (FileNote, error)
	// Drop removes a note, unless it was replaced.
	Drop(ctx context.Context, n FileNote) error
	// Known returns the last known note of a path, without access to the store.
	Known(p config.Path) FileNote
}

// A FileNote says that the file or block device of a namespace existed.
type FileNote struct {
	Path    config.Path `json:"path"`
	Gateway string      `json:"gateway"` // gateway that created it, or found it first
	Time    time.Time   `json:"time"`    // time of that
	Found   bool        `json:"found,omitempty"`
	// Making says that the gateway is about to create the file. It was never served.
	Making   bool     `json:"making,omitempty"`
	Size     int64    `json:"size,omitempty"` // size in bytes when it was last opened or extended
	Mark     []byte   `json:"mark,omitempty"` // see package file; nil: it has none
	Disk     []string `json:"disk,omitempty"` // identifiers of a block device: see [block.Identity]
	Revision uint64   `json:"-"`              // revision in the group's store; 0: there is no such note
}

// noteTime is the time limit for requests to the group's store when a file is opened.
const noteTime = 3 * time.Second

// A notedError reports a file that existed at a gateway, and is missing or different here.
type notedError struct {
	note FileNote
	what string // "is missing here"
	size config.Size
	err  error
}

func (e *notedError) Error() string {
	how := "was created"
	switch {
	case e.note.Making:
		how = "was being created"
	case e.note.Found:
		how = "existed"
	}
	p := e.note.Path
	return fmt.Sprintf("%s %s at gateway %s at %s, but %s: hosts would read zeroes, or other data, instead of theirs; check that its file system is mounted; "+
		"or, if the data is lost, create an empty file: rm -f %s; truncate -s %d %[6]s",
		p, how, e.note.Gateway, e.note.Time.Format(time.RFC3339), e.what, shell.Quote(string(p)), int64(e.size))
}

func (e *notedError) Unwrap() error { return e.err }

// isNoted reports whether gateways have notes of the file or block device of a namespace.
func (s *stores) isNoted(n *config.Namespace) bool {
	return s.notes != nil && (n.File != nil && n.File.Size > 0 || n.Block != nil)
}

// contradicts returns an error if the file or block device of a namespace is not the one of the note. missing
// reports whether there is no file here.
func contradicts(note FileNote, n *config.Namespace, gateway string) (missing bool, why error) {
	if n.Block != nil {
		now := block.Identity(string(n.Path()))
		if sameDisk(note.Disk, now) {
			return false, nil
		}
		return false, &otherDiskError{n.Path(), note.Disk, now, " at gateway " + note.Gateway, "remove the namespace, and add it again"}
	}
	info, err := os.Stat(string(n.Path()))
	missing = errors.Is(err, fs.ErrNotExist)
	switch {
	case note.Revision == 0, note.Making && note.Gateway == gateway:
		return missing, nil // it was never served
	case missing:
		return true, &notedError{note, "is missing here", n.File.Size, fs.ErrNotExist}
	case err != nil:
		return false, nil // opening it reports the error
	case info.Size() < min(note.Size, int64(n.File.Size)):
		return false, &notedError{note, fmt.Sprintf("has %d of its %d bytes here", info.Size(), note.Size), n.File.Size, nil}
	}
	// A file without a mark was put there by an administrator, who knows what hosts will find.
	if mark := file.ReadMark(string(n.Path())); len(note.Mark) > 0 && len(mark) > 0 && !bytes.Equal(mark, note.Mark) {
		return false, &notedError{note, "is another file here", n.File.Size, nil}
	}
	return false, nil
}

// unshared returns an error if gateways cannot serve the file one after the other. Data in the kernel's cache of
// one machine could be written when another gateway already serves the file.
func (s *stores) unshared(h *heldStore) error {
	f, ok := h.store.(interface{ Direct() bool })
	if s.notes == nil || !ok || f.Direct() || h.store.Info().ReadOnly {
		return nil
	}
	return fmt.Errorf("%s: its file system does not support direct I/O, so this machine could still write cached data after another gateway has taken over: use a file system that does", h.as.Path())
}

// goneAway is [known.gone] for gateways, which use notes.
func (s *stores) goneAway(n *config.Namespace) error {
	ctx, cancel := context.WithTimeout(context.Background(), noteTime)
	defer cancel()
	note, err := s.notes.Get(ctx, n.Path())
	if err != nil {
		return notNoted(n, err)
	}
	_, err = contradicts(note, n, s.notes.Gateway())
	return err
}

func notNoted(n *config.Namespace, err error) error {
	return fmt.Errorf("the group's record of %s: %w", n.Path(), err)
}

// openNoted is openNow for a store of which gateways have a note. If it creates a file, it first stores a note with
// Making set. So another gateway does not create the file again, and this one does if it crashes in between.
func (s *stores) openNoted(n *config.Namespace) (*heldStore, error) {
	ctx, cancel := context.WithTimeout(context.Background(), noteTime)
	defer cancel()
	note, err := s.notes.Get(ctx, n.Path())
	if err != nil {
		return nil, notNoted(n, err)
	}
	creates, err := contradicts(note, n, s.notes.Gateway())
	if err != nil {
		return nil, err
	}
	if err := mayOpen(); err != nil {
		return nil, err
	}
	if creates {
		if note, err = s.notes.Put(ctx, newNote(s.notes, n, note.Revision, true)); err != nil {
			return nil, notNoted(n, err)
		}
	}
	made := s.make(n, !creates)
	store, notes, err := s.open(n, s.pool)
	made()
	ctx, cancel = context.WithTimeout(context.Background(), noteTime) // it may have taken longer than that
	defer cancel()
	if err != nil {
		if creates {
			err = errors.Join(err, s.notes.Drop(ctx, note)) // if that fails too, this gateway retries
		}
		return nil, err
	}
	if creates {
		s.log.Warn("file was missing and has been created: the namespace is empty", zap.String("export", string(n.Path())))
	}
	// A file that was created but not noted is kept, and found when it is opened again.
	if err := s.noteOpen(ctx, n, note, store); err != nil {
		return nil, errors.Join(notNoted(n, err), store.Close())
	}
	return &heldStore{store: store, as: n, notes: notes}, nil
}

// newNote returns the note of a file that this gateway creates or has found.
func newNote(notes FileNotes, n *config.Namespace, before uint64, making bool) FileNote {
	return FileNote{Path: n.Path(), Gateway: notes.Gateway(), Time: time.Now().UTC().Truncate(time.Second), Making: making, Found: !making, Revision: before}
}

// noteOpen updates the note of a file from an open store.
func (s *stores) noteOpen(ctx context.Context, n *config.Namespace, was FileNote, store backend.Store) error {
	info, err := os.Stat(string(n.Path()))
	if err != nil {
		return err
	}
	now := was
	if was.Revision == 0 {
		now = newNote(s.notes, n, 0, false)
	}
	now.Size, now.Mark, now.Making = info.Size(), nil, false
	if n.Block != nil && len(now.Disk) == 0 {
		now.Disk = block.Identity(string(n.Path()))
	}
	if m, ok := store.(backend.Marked); ok {
		now.Mark = m.Mark()
	}
	if was.Revision > 0 && !was.Making && was.Size == now.Size && bytes.Equal(was.Mark, now.Mark) && slices.Equal(was.Disk, now.Disk) {
		return nil
	}
	_, err = s.notes.Put(ctx, now)
	return err
}

// noteSize updates the note of a file that was extended. It is [known.add] for gateways.
func (s *stores) noteSize(n *config.Namespace, h *heldStore) error {
	if h == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), noteTime)
	defer cancel()
	note, err := s.notes.Get(ctx, n.Path())
	if err == nil {
		err = s.noteOpen(ctx, n, note, h.store)
	}
	return err
}

// probeNoted returns the properties of a file that another gateway has open.
func (s *stores) probeNoted(n *config.Namespace, probe func(*config.Namespace) (Probed, error)) (p Probed, err error) {
	note := s.notes.Known(n.Path())
	if _, err = contradicts(note, n, s.notes.Gateway()); err != nil {
		return p, err
	}
	if p, err = probe(n); err == nil && note.Revision > 0 && !note.Making {
		p.Mark = note.Mark
	}
	return p, err
}

// FilesNoted probes the namespaces again for whose path changed returns true, since other gateways have changed the
// notes. Thus hosts find the same UUID at all gateways.
func FilesNoted(m *Manager, changed func(config.Path) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.stores.begin(m.startTimeout)
	for at, f := range m.foreign {
		if changed(f.namespace.Path()) {
			announceNoted(m, at, func(s *target.Subsystem) error { return announceForeign(m, s, at, f.namespace) })
		}
	}
	for at, w := range m.waiting {
		if changed(w.namespace.Path()) {
			announceNoted(m, at, func(s *target.Subsystem) error { return s.AwaitNamespace(awayConfig(m, at.nqn, w.namespace)) })
		}
	}
}

// announceNoted calls announce with the subsystem of a namespace, to notify hosts. The caller holds mu.
func announceNoted(m *Manager, at namespaceKey, announce func(*target.Subsystem) error) {
	s, err := m.subsystem(at.nqn)
	if err != nil {
		return // it is being removed
	}
	if err := announce(s); err != nil {
		m.log.Warn("hosts could not be notified of a namespace whose file another gateway has created", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid), zap.Error(err))
	}
}
