package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/backend/block"
	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// known is a folder with notes of files that existed and that the target would create, since the document has a
// size for them: hosts may know their contents. A note has the length and the mark of the file. The folder outlives
// the target. It is not in the file systems of the files, since those may be the ones that are missing. The zero
// value stores nothing.
type known string

// entry returns the name of the note of a namespace's file.
func (k known) entry(n *config.Namespace) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%x\x00%x\x00%x", n.Path(), n.UUID, n.NGUID, n.EUI64))
	return filepath.Join(string(k), hex.EncodeToString(sum[:16]))
}

// erased returns the name that the note has while the file is erased, until that is saved: see [Erase].
func (k known) erased(n *config.Namespace) string { return k.entry(n) + erasedSuffix }

const erasedSuffix = ".erased"

// noteErased gives the note of a file that was removed its other name. If that fails, the note remains, and applies only
// to a file with these identifiers.
func (k known) noteErased(n *config.Namespace) {
	if n.File != nil && k != "" {
		_ = os.Rename(k.entry(n), k.erased(n))
	}
}

// forget removes the note of a namespace's file.
func (k known) forget(n *config.Namespace) {
	if n.File != nil && k != "" {
		_ = os.Remove(k.entry(n))
		_ = os.Remove(k.erased(n))
	}
}

// forgetErased removes the notes of erased files that no namespace of a document has: the process ended between the
// saving and the removal of the note.
func (k known) forgetErased(doc *config.Document) {
	if k == "" {
		return
	}
	left, _ := filepath.Glob(filepath.Join(string(k), "*"+erasedSuffix)) // the pattern is valid
	if len(left) == 0 {
		return
	}
	wanted := map[string]bool{}
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			if n.File != nil {
				wanted[k.erased(n)] = true
			}
		}
	}
	for _, name := range left {
		if !wanted[name] {
			_ = os.Remove(name)
		}
	}
}

// A record is the content of a note.
type record struct {
	size    int64  // size in bytes when the file was last opened or extended here; 0: unknown
	mark    []byte // nil: it has none
	damaged error  // why neither is known; nil: both are
}

// read returns the note of a namespace's file, and whether there is one.
func (k known) read(n *config.Namespace) (r record, there bool) {
	if k == "" {
		return record{}, false
	}
	b, err := os.ReadFile(k.entry(n))
	if errors.Is(err, fs.ErrNotExist) {
		b, err = os.ReadFile(k.erased(n))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, false
	case err != nil:
		r.damaged = err
	case len(b) != 8 && len(b) != 8+markSize:
		r.damaged = fmt.Errorf("%s is damaged: it has %d bytes", k.entry(n), len(b))
	default:
		r.size, r.mark = int64(binary.BigEndian.Uint64(b)), b[8:]
	}
	return r, true
}

// markSize is the length of the marks of package file, in bytes.
const markSize = 16

// add writes the note of a namespace's file. undo restores the previous note.
func (k known) add(n *config.Namespace) (undo func() error, err error) {
	undo = func() error { return nil }
	if k == "" {
		return undo, errors.New("there is no directory to record the file in")
	}
	info, err := os.Stat(string(n.Path()))
	if err != nil {
		return undo, err
	}
	name := k.entry(n)
	now := append(binary.BigEndian.AppendUint64(nil, uint64(info.Size())), file.ReadMark(string(n.Path()))...)
	before, missing := os.ReadFile(name)
	if missing == nil && bytes.Equal(before, now) {
		return undo, nil
	}
	if err := namedfile.MakeFolder(string(k)); err != nil {
		return undo, err
	}
	undo = func() error { return namedfile.Replace(name, before, namedfile.Options{}) }
	if missing != nil {
		undo = func() error { return os.RemoveAll(name) } // it may not have been written
	}
	return undo, namedfile.Replace(name, now, namedfile.Options{})
}

// mark returns the mark of a namespace's file, or of the missing one that it had.
func (k known) mark(n *config.Namespace) []byte {
	if n.File == nil {
		return nil
	}
	if k.gone(n) == nil {
		return file.ReadMark(string(n.Path()))
	}
	r, _ := k.read(n)
	return r.mark
}

// gone returns an error if hosts would not find their data if the namespace were opened now. They would read zeroes
// if the file were created or extended, or they would find another disk than they know.
func (k known) gone(n *config.Namespace) error {
	if n.Block != nil {
		return k.otherDisk(n.Path(), block.Identity(string(n.Path())))
	}
	if n.File == nil || n.File.Size == 0 {
		return nil
	}
	was, there := k.read(n)
	if !there {
		return nil
	}
	info, err := os.Stat(string(n.Path()))
	switch {
	case missing(n.Path()):
		return &missingFileError{string(n.Path()), n.File.Size, errKnown}
	case err == nil && info.Size() < min(was.size, int64(n.File.Size)):
		return &shortFileError{string(n.Path()), info.Size(), was.size}
	case err == nil && was.damaged != nil && info.Size() < int64(n.File.Size):
		return &unverifiedSizeError{string(n.Path()), info.Size(), int64(n.File.Size), was.damaged, k.entry(n)}
	}
	return nil // opening it reports other errors
}

// warnRenamed warns if a namespace has a new identity since its file has lost its mark. A file that was restored
// without its extended attributes has none. It is called when the file is opened.
func (s *stores) warnRenamed(nqn nvmeof.NQN, n *config.Namespace, mark []byte) {
	h := s.held[keyOf(nqn, n)]
	if h == nil || h.created || len(h.was) == 0 || bytes.Equal(h.was, mark) || n.UUID != (config.UUID{}) {
		return
	}
	was, now := config.DefaultUUID(nqn, n.NSID, exportName(n), h.was), config.DefaultUUID(nqn, n.NSID, exportName(n), mark)
	s.log.Warn("the file was replaced, or has lost its extended attributes: the namespace has another UUID now; to keep the old one, set it as uuid of the namespace",
		zap.String("export", string(n.Path())), zap.Stringer("was", uuid.UUID(was)), zap.Stringer("is", uuid.UUID(now)))
	h.was = mark // warn once
}
