package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/test/faultyfs"
)

// TestEraseUnsaved: a namespace whose erasure cannot be saved stays, and waits for its file, also after a restart. So a
// repeated request finds it, and saves that it is gone.
func TestEraseUnsaved(t *testing.T) {
	faultyfs.Run(t, func(t *testing.T, disk *faultyfs.FS) {
		c := newCrashRig(t, disk)
		for _, anew := range []bool{false, true} {
			c.apply(c.doc(crashDocument)) // the second time another namespace of the same name and identity
			if s := c.Status(); len(s.Waiting) > 0 {
				t.Errorf("a new namespace waits: %+v", s.Waiting)
			}
			if _, err := c.Save(""); err != nil {
				t.Fatal(err)
			}
			disk.Inject(faultyfs.Fault{Ops: faultyfs.OpRename, Name: "target.yaml", Err: syscall.EIO, Count: 1})
			_, err := Erase(c.Manager, "a", 1, Options{Save: true})
			if code, _ := classify(err); code != CodeUnsaved || !strings.Contains(err.Error(), "erase it again") {
				t.Errorf("%v: %v", code, err)
			}
			if anew {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				c = newCrashRig(t, disk)
				if _, err := c.Apply(c.saved(), Options{Wait: true}); err != nil {
					t.Fatal(err)
				}
			}
			if s := c.Status(); s.Namespaces != 1 || len(s.Waiting) != 1 || !strings.Contains(s.Waiting[0].Why, "is missing") {
				t.Errorf("started anew %v: %d namespaces, which wait: %+v", anew, s.Namespaces, s.Waiting)
			}
			if _, err := os.Lstat(filepath.Join(disk.Dir, "disk")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the erased file: %v", err)
			}
			if _, err := Erase(c.Manager, "a", 1, Options{Save: true}); err != nil {
				t.Error(err)
			}
			if doc := c.saved(); len(doc.Subsystems[0].Namespaces) > 0 {
				t.Errorf("saved is\n%s", doc.YAML())
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestForgetErased: the note of a file that was erased remains while a namespace of the document has the file, and is
// removed at a start of which none has.
func TestForgetErased(t *testing.T) {
	k, path := known(filepath.Join(t.TempDir(), "state")), filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	n := &config.Namespace{NSID: 1, File: &config.File{Path: config.Path(path), Size: 4096}}
	if _, err := k.add(n); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	k.noteErased(n)
	k.forgetErased(&config.Document{Subsystems: []*config.Subsystem{{NQN: "a", Namespaces: []*config.Namespace{n}}}})
	if err := k.gone(n); err == nil {
		t.Error("the file would be created again")
	}
	k.forgetErased(&config.Document{})
	if err := k.gone(n); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(string(k)); len(left) > 0 || err != nil {
		t.Errorf("%v are left, %v", left, err)
	}
}

// saved returns the document in the target's file.
func (c *crashRig) saved() *config.Document {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.disk.Dir, "target.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	doc, _, err := config.Parse("target.yaml", text)
	if err != nil {
		c.t.Fatal(err)
	}
	return doc
}
