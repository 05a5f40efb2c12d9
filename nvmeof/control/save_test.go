package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

const savedText = `# the only one
version: 1
subsystems:
  - nqn: a # its name
    namespaces:
      - {nsid: 1, memory: {size: 1MiB}}
`

// A saver is a rig that was started with a file.
type saver struct {
	*rig
	file string
}

func newSaver(t *testing.T, text string) *saver {
	t.Helper()
	s := &saver{file: filepath.Join(t.TempDir(), "target.yaml")}
	s.write(t, text)
	doc, _, err := config.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s.rig = newRig(t, func(c *Config) { c.File, c.Settings = s.file, doc })
	s.apply(doc)
	return s
}

func (s *saver) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(s.file, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// add adds a namespace and saves the document.
func (s *saver) add(nsid int, o Options) (*Outcome, error) {
	o.Save = true
	return s.Edit(func(d *config.Document) error {
		return namespaces(d.Subsystems[0]).add(&config.Namespace{NSID: nsid, Memory: &config.Memory{Size: 1 << 20}})
	}, o)
}

func (s *saver) want(text string, namespaces int) {
	s.t.Helper()
	if got, err := os.ReadFile(s.file); err != nil || string(got) != text {
		s.t.Errorf("%v, the file has\n%s\nwant\n%s", err, got, text)
	}
	if n := len(s.Document().Subsystems[0].Namespaces); n != namespaces {
		s.t.Errorf("the target has %d namespaces, want %d", n, namespaces)
	}
	if left, _ := filepath.Glob(filepath.Dir(s.file) + "/.*"); len(left) > 0 {
		s.t.Errorf("%q stay", left)
	}
}

const second = "      - nsid: 2\n        memory:\n          size: 1MiB\n"

// TestSaveKeeps: a change is made in the existing file, whose other content is kept.
func TestSaveKeeps(t *testing.T) {
	s := newSaver(t, savedText)
	if _, err := s.add(2, Options{DryRun: true}); err != nil {
		t.Error(err)
	}
	s.want(savedText, 1)
	out, err := s.add(2, Options{})
	if err != nil || len(out.Warnings) != 0 { // the start has warned that no host may connect, and that there is no listener
		t.Errorf("%+v, %v", out, err)
	}
	s.want(savedText+second, 2)
	if info, err := os.Stat(s.file); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestSaveThroughLink: another name of the file with which the target was started is treated as the same.
func TestSaveThroughLink(t *testing.T) {
	s := newSaver(t, savedText)
	link := filepath.Join(t.TempDir(), "link.yaml")
	if err := os.Symlink(s.file, link); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Edit(func(d *config.Document) error {
		return namespaces(d.Subsystems[0]).add(&config.Namespace{NSID: 2, Memory: &config.Memory{Size: 1 << 20}})
	}, Options{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Save(link); err != nil {
			t.Error(err)
		}
		s.want(savedText+second, 2)
	}
	if name := s.Status().File; name != s.file {
		t.Errorf("the target's file is %s", name)
	}
	if _, err := s.add(3, Options{}); err != nil { // to its own name
		t.Error(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
}

// TestSavePending: limits that wait for a restart are kept in the file. Other changes of the file that the target
// does not have are not overwritten, and the change is not made.
func TestSavePending(t *testing.T) {
	s := newSaver(t, savedText)
	pending := savedText + "limits: {shards: 3} # tonight\n"
	s.write(t, pending)
	if _, err := s.add(2, Options{}); err != nil {
		t.Fatal(err)
	}
	pending = savedText + second + "limits: {shards: 3} # tonight\n"
	s.want(pending, 2)
	theirs := strings.Replace(pending, "1MiB}", "2MiB}", 1)
	s.write(t, theirs)
	for _, o := range []Options{{}, {DryRun: true}} {
		_, err := s.add(3, o)
		if code, _ := classify(err); code != CodeFailed || !strings.Contains(err.Error(), "was changed since") || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%+v: %v, %v", o, code, err)
		}
		s.want(theirs, 2)
	}
	if _, err := s.Save(""); err == nil {
		t.Error("the changes in the file were overwritten")
	}
	doc, _, err := config.Parse("test", []byte(theirs))
	if err != nil {
		t.Fatal(err)
	}
	doc.Limits = config.Limits{}
	if _, err := s.Apply(doc, Options{Force: true}); err != nil { // as the error advises
		t.Fatal(err)
	}
	if _, err := s.add(3, Options{}); err != nil {
		t.Error(err)
	}
	s.write(t, "version: [")
	if _, err := s.add(4, Options{}); err == nil || !strings.Contains(err.Error(), "no longer a valid configuration") {
		t.Errorf("%v", err)
	}
	s.want("version: [", 3)
}

// TestSaveFails: a change that cannot be saved is not made, and one that was made but not saved is reported.
func TestSaveFails(t *testing.T) {
	s := newSaver(t, savedText)
	s.cfg.File = s.dir + "/none/target.yaml"
	_, err := s.add(2, Options{})
	if code, _ := classify(err); code != CodeFailed || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, %v", code, err)
	}
	s.cfg.File = s.file
	s.want(savedText, 1)
	if code, _ := classify(&SaveError{s.file, os.ErrPermission, true}); code != CodeUnsaved {
		t.Errorf("code %v", code)
	}
}

// TestSaveMeets: what another target wrote to the file after it was read is kept.
func TestSaveMeets(t *testing.T) {
	for _, before := range []string{savedText, ""} {
		s := newSaver(t, savedText)
		if before == "" {
			if err := os.Remove(s.file); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		staged, err := s.stage(s.Manager.doc, "")
		s.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		theirs := strings.Replace(savedText, "nqn: a", "nqn: b", 1)
		s.write(t, theirs)
		s.mu.Lock()
		err = s.commit(staged)
		s.mu.Unlock()
		if err == nil || !strings.Contains(err.Error(), "changed while it was being saved") {
			t.Errorf("the other's file was replaced, with error %v", err)
		}
		s.want(theirs, 1)
	}
}

// TestSaveAnew: a text that cannot be edited is replaced, with a warning.
func TestSaveAnew(t *testing.T) {
	odd := "version: 1\nsubsystems:\n  -\n    nqn: a\n    namespaces:\n      -\n        nsid: 1\n        memory: {size: 1MiB}\n"
	s := newSaver(t, odd)
	out, err := s.add(2, Options{})
	if err != nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0].String(), "its comments are lost") {
		t.Errorf("%+v, %v", out, err)
	}
	s.want(string(s.Document().YAML()), 2)
}

// TestSaveUnreadable: a document that a start would refuse to read is not saved, to an existing file or a new one.
func TestSaveUnreadable(t *testing.T) {
	s := newSaver(t, savedText)
	other := filepath.Join(s.dir, "other.yaml")
	for _, name := range []string{s.file, other, other + ".json"} {
		_, err := s.Edit(func(d *config.Document) error {
			d.Subsystems[0].Model = "not \x01 printable"
			return nil
		}, Options{Save: true, File: name, DryRun: true})
		if !errors.As(err, new(*SaveError)) || !strings.Contains(err.Error(), "could not read the configuration") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.want(savedText, 1)
	if err := readable([]byte(savedText)); err != nil {
		t.Error(err)
	}
	if err := readable([]byte(savedText + strings.Repeat("#", config.MaxText))); err == nil {
		t.Error("too many bytes are not")
	}
}
