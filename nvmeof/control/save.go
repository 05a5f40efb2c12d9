package control

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/namedfile"
	"github.com/nvmeof-go/nvmeof/internal/shell"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// Save writes the document to a file; if file is empty, to the one with which the target was
// started. It changes only what differs there, and keeps the rest of the file. The document
// includes what the target waits for. A target that was started without a file uses this one from
// then on.
func (m *Manager) Save(file string) (warnings config.Problems, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	m.stores.begin(m.changeTimeout)
	s, err := m.stage(m.doc, file)
	if err != nil {
		return nil, err
	}
	if err := m.commit(s); err != nil {
		return nil, &SaveError{s.name, err, false}
	}
	return s.warnings, nil
}

// A saving is the file's new content, which is not in its place yet.
type saving struct {
	reacher  *reacher
	name     string
	ours     bool // it is the file with which the target was started, by whatever name
	file     *namedfile.Staged
	old      []byte           // what the file said; nil: it was not there
	doc      *config.Document // what the file will say
	warnings config.Problems
}

// discard removes what is not in its place, at once unless its file system hangs.
func (s *saving) discard() {
	_ = s.reacher.last(s.path(), func() error { s.file.Discard(); return nil })
}

func (s *saving) path() config.Path { return config.Path(s.name) }

var errNoFile = errors.New("the target was not started with --config FILE, so there is no file to save to: name one, as in --save FILE, or by nvmeof target save FILE")

// stage does what can fail of saving a document. Called with mu held.
func (m *Manager) stage(want *config.Document, name string) (*saving, error) {
	name = cmp.Or(name, m.cfg.File)
	if name == "" {
		return nil, &SaveError{Err: errNoFile}
	}
	want = own(m, want)
	s := &saving{reacher: &m.stores.reacher, name: name, doc: want}
	old, err := s.read(m.context)
	s.old, s.ours = old, s.is(m.cfg.File)
	if outside := s.reacher.ask(s.path(), func() error { return m.cfg.Permit(name, true) }); outside != nil {
		return nil, &SaveError{name, outside, false}
	}
	var text []byte
	switch {
	case errors.Is(err, fs.ErrNotExist):
		text = want.YAML()
		if strings.HasSuffix(name, ".json") {
			text = want.JSON()
		}
		err = readable(text)
	case err == nil:
		text, err = m.rewrite(s, old)
	}
	if err == nil {
		s.file, err = stage(s.reacher, s.reacher.time(), s.path(), text)
	}
	if err != nil {
		return nil, &SaveError{name, err, false}
	}
	return s, nil
}

// is reports whether the file has that name, if only through symbolic links. Of two hard links only one is replaced.
func (s *saving) is(file string) bool {
	if file == "" || file == s.name {
		return file != ""
	}
	same, _ := reach(s.reacher, s.path(), func() (bool, error) {
		a, err := filepath.EvalSymlinks(s.name)
		b, err2 := filepath.EvalSymlinks(file)
		return err == nil && err2 == nil && a == b, nil
	}, nil)
	return same
}

// read is what the file has now.
func (s *saving) read(ctx context.Context) ([]byte, error) {
	return reach(s.reacher, s.path(), func() ([]byte, error) { return namedfile.Read(ctx, s.name, config.MaxText) }, nil)
}

// rewrite is what becomes of the file. Settings that a running target keeps are those of
// the file. Other changes that somebody made there and the target has not would be lost.
func (m *Manager) rewrite(s *saving, old []byte) ([]byte, error) {
	name := s.name
	file, _, err := config.Parse(name, old)
	switch {
	case err != nil && !config.Resembles(old):
		return nil, fmt.Errorf("%s is no configuration: is it the right file? Give another name, or remove it if nothing of it is needed", name)
	case err != nil:
		return nil, fmt.Errorf("it is not a configuration any more: %w; correct it, or replace it: nvmeof target export --output %s", err, shell.Quote(name))
	}
	known := func(doc *config.Document) bool {
		doc = doc.Clone()
		doc.TakeSettings(file)
		return len(config.Diff(file, doc)) == 0
	}
	switch {
	case known(own(m, m.doc)), known(s.doc), s.ours && known(m.saved):
	case !s.ours:
		return nil, fmt.Errorf("%[1]s is there and describes another target: nvmeof target diff %[2]s shows the differences; give another name, or remove it", name, shell.Quote(name))
	default:
		return nil, fmt.Errorf("%[1]s was changed since the target read it: nvmeof target diff %[2]s shows how; apply that with nvmeof target apply %[2]s, "+
			"or drop it with nvmeof target export --output %[2]s", name, shell.Quote(name))
	}
	s.doc = s.doc.Clone()
	s.doc.TakeSettings(file)
	text, kept := config.Rewrite(old, s.doc)
	if !kept {
		s.warnings = config.Problems{{File: name, Text: "is laid out such that it had to be written anew", Fix: "its comments are lost"}}
		return text, readable(text)
	}
	return text, nil
}

// readable is an error where the next start would refuse a text, which has more than is read.
func readable(text []byte) error {
	if err := config.ParsePart("", text, new(config.Document)); err != nil {
		return fmt.Errorf("what is to be saved could not be read by the next start: %w", err)
	}
	return nil
}

// unchanged reports with an error that somebody has written the file, or made it, since it was
// read: another target that saves to the same one, say.
func (s *saving) unchanged(ctx context.Context) error {
	now, err := s.read(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // who removed it wants it anew
	case err != nil:
		return err
	case s.old == nil || !bytes.Equal(now, s.old):
		return fmt.Errorf("%s was written by somebody else meanwhile: see nvmeof target diff %s, and save again", s.name, shell.Quote(s.name))
	}
	return nil
}

// commit puts the new content in its place, or drops it. Called with mu held.
func (m *Manager) commit(s *saving) error {
	defer s.discard()
	err := s.unchanged(m.context)
	if err == nil {
		err = commit(s.reacher, s.reacher.time(), s.path(), s.file)
	}
	if err == nil && (m.cfg.File == "" || s.ours) {
		m.cfg.File, m.saved = cmp.Or(m.cfg.File, s.name), s.doc
	}
	return err
}
