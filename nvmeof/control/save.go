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

// Save writes the document to a file; if file is empty, to the one with which the target was started. It changes
// only what differs in the file, and keeps the rest. The document includes objects for which the target waits. A
// target that was started without a file uses this one from then on.
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

// A saving is the new content of a file before it replaces the old one.
type saving struct {
	reacher  *reacher
	name     string
	ours     bool // it is the file with which the target was started, perhaps by another name
	file     *namedfile.Staged
	old      []byte           // old content; nil: the file did not exist
	doc      *config.Document // document of the new content
	warnings config.Problems
}

// discard removes the new content if it was not committed. If the file system hangs, that happens later.
func (s *saving) discard() {
	_ = s.reacher.last(s.path(), func() error { s.file.Discard(); return nil })
}

func (s *saving) path() config.Path { return config.Path(s.name) }

var errNoFile = errors.New("the target was not started with --config FILE, so there is no file to save to: name one, as in --save FILE, or by nvmeof target save FILE")

// stage does the part of saving a document that can fail. The caller holds mu.
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

// is reports whether file is another name of s's file, perhaps through symbolic links. Hard links do not count,
// since only one of them would be replaced.
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

// read returns the present content of the file.
func (s *saving) read(ctx context.Context) ([]byte, error) {
	return reach(s.reacher, s.path(), func() ([]byte, error) { return namedfile.Read(ctx, s.name, config.MaxText) }, nil)
}

// rewrite returns the new content of the file. Settings that a running target cannot change are taken from the
// file. If the file has other changes that the target does not have, rewrite returns an error, since they would be
// lost.
func (m *Manager) rewrite(s *saving, old []byte) ([]byte, error) {
	name := s.name
	file, _, err := config.Parse(name, old)
	switch {
	case err != nil && !config.Resembles(old):
		return nil, fmt.Errorf("%s is not a configuration: is it the right file? Give another name, or remove it if it is not needed", name)
	case err != nil:
		return nil, fmt.Errorf("it is no longer a valid configuration: %w; correct it, or replace it: nvmeof target export --output %s", err, shell.Quote(name))
	}
	known := func(doc *config.Document) bool {
		doc = doc.Clone()
		doc.TakeSettings(file)
		return len(config.Diff(file, doc)) == 0
	}
	switch {
	case known(own(m, m.doc)), known(s.doc), s.ours && known(m.saved):
	case !s.ours:
		return nil, fmt.Errorf("%[1]s exists and describes another target: nvmeof target diff %[2]s shows the differences; give another name, or remove it", name, shell.Quote(name))
	default:
		return nil, fmt.Errorf("%[1]s was changed since the target read it: nvmeof target diff %[2]s shows how; apply that with nvmeof target apply %[2]s, "+
			"or drop it with nvmeof target export --output %[2]s", name, shell.Quote(name))
	}
	s.doc = s.doc.Clone()
	s.doc.TakeSettings(file)
	text, kept := config.Rewrite(old, s.doc)
	if !kept {
		s.warnings = config.Problems{{File: name, Text: "its layout could not be kept, so the file was written anew", Fix: "its comments are lost"}}
		return text, readable(text)
	}
	return text, nil
}

// readable returns an error if the next start would refuse a text, which has more than can be read.
func readable(text []byte) error {
	if err := config.ParsePart("", text, new(config.Document)); err != nil {
		return fmt.Errorf("the next start could not read the configuration to be saved: %w", err)
	}
	return nil
}

// unchanged returns an error if the file was written or created since it was read, for example by another target.
func (s *saving) unchanged(ctx context.Context) error {
	now, err := s.read(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // whoever removed it wants a new one
	case err != nil:
		return err
	case s.old == nil || !bytes.Equal(now, s.old):
		return fmt.Errorf("%s was changed while it was being saved: see nvmeof target diff %s, and save again", s.name, shell.Quote(s.name))
	}
	return nil
}

// commit replaces the file by the new content. If that fails, it discards the content. The caller holds mu.
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
