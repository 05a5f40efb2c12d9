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

// FileNotes are kept where all gateways of a group have them: which files of namespaces there were once, so
// that each is created once, whatever gateway serves it, and is the same to hosts at all, and which disks. A note belongs to a
// path, as long as the group's document has a namespace with it.
type FileNotes interface {
	// Gateway is the name of this one.
	Gateway() string
	// Get asks for the note of a path; Revision 0: there is none.
	Get(ctx context.Context, p config.Path) (FileNote, error)
	// Put replaces a note by one with the Revision of that, and returns it with its own. It is an error if another
	// gateway was faster.
	Put(ctx context.Context, n FileNote) (FileNote, error)
	// Drop removes a note, unless it was replaced.
	Drop(ctx context.Context, n FileNote) error
	// Known is the note of a path as it was known last. It asks nobody.
	Known(p config.Path) FileNote
}

// A FileNote says that the file, or block device, of a namespace was there.
type FileNote struct {
	Path    config.Path `json:"path"`
	Gateway string      `json:"gateway"` // that has made it, or found it first
	Time    time.Time   `json:"time"`    // when
	Found   bool        `json:"found,omitempty"`
	// Making says that the gateway is about to make it. It has not been served.
	Making   bool     `json:"making,omitempty"`
	Size     int64    `json:"size,omitempty"` // bytes that it had when it was last opened or extended
	Mark     []byte   `json:"mark,omitempty"` // of package file; nil: it has none
	Disk     []string `json:"disk,omitempty"` // what the kernel knows a block device by: see [block.Identity]
	Revision uint64   `json:"-"`              // in the group's store; 0: there is no such note
}

// noteTime is how long the group's store has for what opening a file asks of it.
const noteTime = 3 * time.Second

// A notedError is a file that was there at a gateway, and is missing here, or another.
type notedError struct {
	note FileNote
	what string // "is missing here"
	size config.Size
	err  error
}

func (e *notedError) Error() string {
	how := "was made"
	switch {
	case e.note.Making:
		how = "was about to be made"
	case e.note.Found:
		how = "was there"
	}
	p := e.note.Path
	return fmt.Sprintf("%s %s at gateway %s at %s, and %s: is its file system mounted? Hosts would find zeroes, or other data, instead of theirs; "+
		"mount it, or, if the data is lost, make an empty one: rm -f %s; truncate -s %d %[6]s",
		p, how, e.note.Gateway, e.note.Time.Format(time.RFC3339), e.what, shell.Quote(string(p)), int64(e.size))
}

func (e *notedError) Unwrap() error { return e.err }

// isNoted reports whether the gateways have notes of a namespace's file or block device.
func (s *stores) isNoted(n *config.Namespace) bool {
	return s.notes != nil && (n.File != nil && n.File.Size > 0 || n.Block != nil)
}

// contradicts is why the file or block device of a namespace, as it is here, is not what a note says; nil: it may
// be. The first result says that there is no file here.
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
		return missing, nil // nobody has served it
	case missing:
		return true, &notedError{note, "is missing here", n.File.Size, fs.ErrNotExist}
	case err != nil:
		return false, nil // opening it reports what is wrong
	case info.Size() < min(note.Size, int64(n.File.Size)):
		return false, &notedError{note, fmt.Sprintf("has %d of its %d bytes here", info.Size(), note.Size), n.File.Size, nil}
	}
	// One without a mark was put there by somebody who knows what hosts find.
	if mark := file.ReadMark(string(n.Path())); len(note.Mark) > 0 && len(mark) > 0 && !bytes.Equal(mark, note.Mark) {
		return false, &notedError{note, "is another file here", n.File.Size, nil}
	}
	return false, nil
}

// unshared is why gateways cannot have a file one after the other; nil: they can. What the kernel of one has cached
// it writes when it likes, also when another gateway serves the file.
func (s *stores) unshared(h *heldStore) error {
	f, ok := h.store.(interface{ Direct() bool })
	if s.notes == nil || !ok || f.Direct() || h.store.Info().ReadOnly {
		return nil
	}
	return fmt.Errorf("%s: its file system does no direct I/O, so that this machine could write what it has cached after another gateway has taken over: use one that does", h.as.Path())
}

// goneAway is [known.gone] for gateways, by their note.
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
	return fmt.Errorf("the group's note of %s: %w", n.Path(), err)
}

// openNoted is openNow where gateways have a note of the file. It is put before the file is created, and says then
// that nobody has served it; so another gateway does not create it again, and this one, if it fails in between, does.
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
	store, notes, err := s.open(n, s.pool)
	if err != nil {
		if creates {
			err = errors.Join(err, s.notes.Drop(ctx, note)) // if that fails, it is this gateway which tries again
		}
		return nil, err
	}
	if creates {
		s.log.Warn("file was missing, and is created: the namespace is empty", zap.String("export", string(n.Path())))
	}
	// A file that was made, and is not noted, stays, and is found when it is opened again.
	if err := s.noteOpen(ctx, n, note, store); err != nil {
		return nil, errors.Join(notNoted(n, err), store.Close())
	}
	return &heldStore{store: store, as: n, notes: notes}, nil
}

// newNote is one of a file that this gateway makes, or has found.
func newNote(notes FileNotes, n *config.Namespace, before uint64, making bool) FileNote {
	return FileNote{Path: n.Path(), Gateway: notes.Gateway(), Time: time.Now().UTC().Truncate(time.Second), Making: making, Found: !making, Revision: before}
}

// noteOpen has the note of a file say what an open store has.
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

// noteSize is [known.add] of a file that was extended, for gateways.
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

// probeNoted finds what hosts are told of a file that another gateway has open.
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

// FilesNoted checks the namespaces again whose files' notes other gateways have changed, so that
// hosts find the same UUID everywhere.
func FilesNoted(m *Manager, changed func(config.Path) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.stores.begin(m.startTimeout)
	for at, f := range m.foreign {
		if changed(f.namespace.Path()) {
			announceNoted(m, at, func(s *target.Subsystem) error { return leaveForeign(m, s, at, f.namespace) })
		}
	}
	for at, w := range m.waiting {
		if changed(w.namespace.Path()) {
			announceNoted(m, at, func(s *target.Subsystem) error { return s.AwaitNamespace(awayConfig(m, at.nqn, w.namespace)) })
		}
	}
}

// announceNoted has hosts told of a namespace. Called with mu held.
func announceNoted(m *Manager, at namespaceKey, announce func(*target.Subsystem) error) {
	s, err := m.subsystem(at.nqn)
	if err != nil {
		return // it is leaving
	}
	if err := announce(s); err != nil {
		m.log.Warn("hosts are not told of a namespace whose file another gateway has made", zap.String("subsystem", string(at.nqn)), zap.Int("nsid", at.nsid), zap.Error(err))
	}
}
