package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/nvmeof-go/nvmeof/internal/group/revision"
	"github.com/nvmeof-go/nvmeof/internal/group/state"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

const (
	filePrefix = "file/"
	// fileVersion is the version of the notes of files.
	fileVersion = 1
	// filesPause is the shortest interval between two reads of all notes.
	filesPause = 200 * time.Millisecond
)

// errFaster says that another gateway has replaced a note meanwhile.
var errFaster = errors.New("another gateway has changed its record in the group's store in the meantime: try again")

// files are the notes of files that the gateways share. It implements [control.FileNotes].
type files struct {
	gateway *Gateway

	mu    sync.Mutex // guards known
	known map[config.Path]control.FileNote
}

// A storedNote is the value of a note.
type storedNote struct {
	Version int `json:"version"`
	control.FileNote
}

func fileKey(p config.Path) string { return keyOfPath(filePrefix, p) }

// keyOfPath returns the key of a note for a path. The path is hashed, since it may be longer than a key, and a prefix of
// another path.
func keyOfPath(prefix string, p config.Path) string {
	sum := sha256.Sum256([]byte(p))
	return prefix + hex.EncodeToString(sum[:16])
}

func readNote(e state.Entry) (control.FileNote, error) {
	var n storedNote
	if err := json.Unmarshal(e.Value, &n); err != nil {
		return n.FileNote, fmt.Errorf("%s: %w", e.Key, err)
	}
	if n.Version < 1 || n.Path == "" {
		return n.FileNote, fmt.Errorf("%s is damaged: the value was not written by a gateway", e.Key)
	}
	if n.Version > fileVersion {
		return n.FileNote, fmt.Errorf("%s has version %d, but this gateway knows only %d: upgrade this gateway", e.Key, n.Version, fileVersion)
	}
	n.Revision = uint64(e.Revision)
	return n.FileNote, nil
}

// Gateway implements [control.FileNotes].
func (f *files) Gateway() string { return f.gateway.name }

// Get implements [control.FileNotes].
func (f *files) Get(ctx context.Context, p config.Path) (n control.FileNote, err error) {
	all, err := f.gateway.store.Get(ctx, fileKey(p))
	if err == nil && len(all.Entries) > 0 {
		n, err = readNote(all.Entries[0])
	}
	if err == nil {
		f.learn(p, n)
	}
	return n, err
}

// Put implements [control.FileNotes].
func (f *files) Put(ctx context.Context, n control.FileNote) (control.FileNote, error) {
	value, err := json.Marshal(storedNote{fileVersion, n})
	if err != nil {
		return n, err
	}
	key := fileKey(n.Path)
	r, err := f.gateway.store.Txn(ctx, state.Txn{If: []state.Compare{{Key: key, Revision: state.Revision(n.Revision)}}, Then: []state.Op{{Key: key, Value: value}}})
	switch {
	case err != nil:
		return n, err
	case !r.Done:
		return n, errFaster
	}
	n.Revision = uint64(r.Revision)
	f.learn(n.Path, n)
	return n, nil
}

// Drop implements [control.FileNotes].
func (f *files) Drop(ctx context.Context, n control.FileNote) error {
	_, err := f.gateway.store.Txn(ctx, dropNote(fileKey(n.Path), state.Revision(n.Revision)))
	return err
}

func dropNote(key string, r state.Revision, more ...state.Compare) state.Txn {
	return state.Txn{If: append(more, state.Compare{Key: key, Revision: r}), Then: []state.Op{{Key: key, Delete: true}}}
}

// Known implements [control.FileNotes].
func (f *files) Known(p config.Path) control.FileNote {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[p]
}

// learn remembers a note of the store, unless a later one is known.
func (f *files) learn(p config.Path, n control.FileNote) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.Revision > f.known[p].Revision {
		f.known[p] = n
	}
}

// read reads all notes, and returns the paths whose notes describe the file differently than before.
func (f *files) read(ctx context.Context) (changed map[config.Path]bool, err error) {
	all, err := f.gateway.store.Get(ctx, filePrefix)
	if err != nil {
		return nil, err
	}
	now := make(map[config.Path]control.FileNote, len(all.Entries))
	for _, e := range all.Entries {
		if n, err := readNote(e); err == nil { // a note with an error is reported when the file is opened
			now[n.Path] = n
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	changed = map[config.Path]bool{}
	for p, n := range now {
		was := f.known[p]
		if was.Revision > uint64(all.Revision) {
			now[p] = was
			continue
		}
		changed[p] = was.Revision == 0 || was.Making != n.Making || was.Size != n.Size || !bytes.Equal(was.Mark, n.Mark) || !slices.Equal(was.Disk, n.Disk)
	}
	for p, was := range f.known {
		if _, there := now[p]; !there && was.Revision > uint64(all.Revision) {
			now[p] = was
		}
	}
	f.known = now
	return changed, nil
}

// notice follows the notes until ctx ends, so that hosts are told the same about a file as at the gateway that serves it.
func (f *files) notice(ctx context.Context) {
	_ = f.gateway.store.Watch(ctx, filePrefix, func() {
		for done := false; !done && ctx.Err() == nil; {
			changed, err := f.read(ctx)
			if done = err == nil; done {
				control.FilesNoted(f.gateway.manager, func(p config.Path) bool { return changed[p] })
			}
			select {
			case <-ctx.Done():
			case <-time.After(filesPause):
			}
		}
	})
}

// collect removes the notes of files, and of failures, that the group's document does not have, while the document is the
// current revision. A namespace that is added again later may then be created again.
func (f *files) collect(ctx context.Context, number int64, doc *config.Document) error {
	all, err := f.gateway.store.Get(ctx, filePrefix)
	if err != nil {
		return err
	}
	failed, err := f.gateway.store.Get(ctx, faultPrefix)
	if err != nil || len(all.Entries)+len(failed.Entries) == 0 {
		return err
	}
	there := keysOf(doc)
	var errs []error
	var present state.Compare
	for _, e := range slices.Concat(all.Entries, failed.Entries) {
		if there[e.Key] {
			continue
		}
		if present.Key == "" {
			if present, err = revision.Present(ctx, f.gateway.store, number); err != nil {
				return err
			}
		}
		_, err := f.gateway.store.Txn(ctx, dropNote(e.Key, e.Revision, present))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// keysOf returns the keys of the notes of a document's files, and of their failures.
func keysOf(doc *config.Document) map[string]bool {
	there := map[string]bool{}
	for _, s := range doc.Subsystems {
		for _, n := range s.Namespaces {
			there[fileKey(n.Path())], there[faultKey(n.Path())] = true, true
		}
	}
	for _, e := range doc.Erasing {
		there[fileKey(e.Namespace.Path())], there[faultKey(e.Namespace.Path())] = true, true
	}
	return there
}

// forgotten calls collect, and logs an error. The next change tries again.
func (f *files) forgotten(ctx context.Context, number int64, doc *config.Document) {
	if doc == nil {
		return
	}
	if err := f.collect(ctx, number, doc); err != nil && !errors.Is(err, revision.ErrConflict) {
		f.gateway.cfg.Log.Warn("cannot remove the records of files that are no longer in the group's configuration; retrying", zap.Error(err))
	}
}
