package gateway

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/group/state/simulated"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// inFile is a group's document with a namespace in a file of a size, and more about it.
func inFile(t *testing.T, path, more string) *config.Document {
	t.Helper()
	text := fmt.Sprintf("version: 1\nsubsystems:\n  - nqn: a\n    hosts: [{nqn: h}]\n    namespaces:\n      - {nsid: 1, ana-group: 7, file: {path: %s, size: 1MiB}, fence: lease%s}\n", path, more)
	doc, _, err := config.Parse("shared", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// why is why the namespace waits at a gateway; empty: it does not.
func (n *node) why() string {
	for _, w := range n.m.Status().Waiting {
		return w.Why
	}
	return ""
}

// ids are the UUIDs of the namespace in the target, where it is open.
func (n *node) ids() (all []string) {
	for _, s := range n.target.Subsystems() {
		for _, n := range s.Namespaces() {
			all = append(all, n.UUID().String())
		}
	}
	return all
}

// moveTo moves the namespace's ANA group to a gateway. A move to a gateway whose heartbeat is late, as on a busy machine, fails
// and is ordered again.
func (n *node) moveTo(t *testing.T, name string) {
	t.Helper()
	n.until(t, name+" serves the group", func(s *control.GroupStatus) bool {
		if len(s.Groups) != 1 || s.Groups[0].Moving != "" {
			return false
		}
		if s.Groups[0].Owner != name {
			_ = n.Order(t.Context(), control.Order{Kind: control.MoveGroup, Gateway: name, Group: 7})
		}
		return s.Groups[0].Owner == name
	})
}

// TestFileMadeOnce: a file that one gateway has created is missing at the next owner, whose file system is not mounted. That one
// does not create it, and says so; hosts find the same namespace once the file is there. A namespace that was removed and is
// added again gets a new file.
func TestFileMadeOnce(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"no UUID is given": "", "its UUID is given": ", uuid: 11111111-2222-3333-4444-555555555555"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1))))
			last := byte(201 + len(more)/10*2)
			a, b := start(t, store.Open(time.Second), "gw1", last), start(t, store.Open(time.Second), "gw2", last+1)
			mnt := filepath.Join(t.TempDir(), "mnt")
			path, doc := filepath.Join(mnt, "disk"), inFile(t, filepath.Join(mnt, "disk"), more)
			if err := os.Mkdir(mnt, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := a.m.Apply(doc, control.Options{}); err != nil {
				t.Fatal(err)
			}
			a.until(t, "it is served", func(s *control.GroupStatus) bool { return len(a.ids())+len(b.ids()) == 1 && len(s.Groups) == 1 })
			from, to := a, b
			if len(a.ids()) == 0 {
				from, to = b, a
			}
			was := from.ids()
			if err := errors.Join(os.Rename(mnt, mnt+".away"), os.Mkdir(mnt, 0o700)); err != nil {
				t.Fatal(err)
			}
			from.moveTo(t, to.name)
			to.until(t, "the next owner waits", func(*control.GroupStatus) bool {
				return strings.Contains(to.why(), "was created at gateway "+from.name)
			})
			from.moveTo(t, from.name) // which does not make it again either
			from.until(t, "so does the first", func(*control.GroupStatus) bool { return strings.Contains(from.why(), "is missing here") })
			if _, err := os.Lstat(path); err == nil {
				t.Fatal("the file was made anew")
			}
			from.moveTo(t, to.name)
			if err := errors.Join(os.Remove(mnt), os.Rename(mnt+".away", mnt)); err != nil {
				t.Fatal(err)
			}
			to.until(t, "it is served where its file is", func(*control.GroupStatus) bool { return len(to.ids()) == 1 })
			if now := to.ids(); now[0] != was[0] {
				t.Errorf("it is %v, and was %v", now, was)
			}
			if _, err := a.m.Apply(inFile(t, path+".other", ""), control.Options{Force: true}); err != nil {
				t.Fatal(err)
			}
			to.until(t, "another is made", func(*control.GroupStatus) bool { _, err := os.Lstat(path + ".other"); return err == nil })
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if _, err := a.m.Apply(doc, control.Options{Force: true}); err != nil {
				t.Fatal(err)
			}
			to.until(t, "it is made again", func(*control.GroupStatus) bool { _, err := os.Lstat(path); return err == nil })
		})
	}
}

// TestFileNotes: the note of a file decides whether the file is opened or created.
func TestFileNotes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		note control.FileNote
		file int64 // bytes that it has here; 0: it is missing
		want string
	}{
		"nobody knows it":         {control.FileNote{}, 0, ""},
		"it is there":             {control.FileNote{}, 1 << 20, ""},
		"begun by another":        {control.FileNote{Gateway: "gw2", Making: true}, 0, "was being created at gateway gw2"},
		"begun by this one":       {control.FileNote{Gateway: "gw1", Making: true}, 0, ""},
		"made in its place":       {control.FileNote{Gateway: "gw2", Making: true}, 1 << 20, ""},
		"found elsewhere":         {control.FileNote{Gateway: "gw2", Found: true, Size: 1 << 20}, 0, "existed at gateway gw2"},
		"shorter than it was":     {control.FileNote{Gateway: "gw2", Size: 1 << 20}, 4096, "has 4096 of its 1048576 bytes here"},
		"another, without a mark": {control.FileNote{Gateway: "gw2", Size: 1 << 20, Mark: make([]byte, 16)}, 1 << 20, ""},
	} {
		store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Second)
		m := still(t, store, "gw1")
		path := config.Path(filepath.Join(t.TempDir(), "disk"))
		f := &files{gateway: &Gateway{name: "gw2", store: store}, known: map[config.Path]control.FileNote{}}
		if test.note.Gateway != "" {
			test.note.Path = path
			if _, err := f.Put(t.Context(), test.note); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Put(t.Context(), test.note); !errors.Is(err, errFaster) {
				t.Errorf("%s: a note is put over another: %v", name, err)
			}
		}
		if test.file > 0 {
			if err := os.WriteFile(string(path), make([]byte, test.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := m.Apply(inFile(t, string(path), ""), control.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := control.ServeGroup(t.Context(), m, 7, 1); err != nil {
			t.Fatal(err)
		}
		why := ""
		for _, w := range m.Status().Waiting {
			why = w.Why
		}
		if strings.Contains(why, "check that its file system is mounted") == (test.want == "") || !strings.Contains(why, test.want) {
			t.Errorf("%s: it waits for %q", name, why)
		}
		if n, err := f.Get(t.Context(), path); err != nil || test.want == "" && (n.Making || n.Size != 1<<20) {
			t.Errorf("%s: it is noted as %+v, %v", name, n, err)
		}
		if _, err := os.Lstat(string(path)); err == nil != (test.file > 0 || test.want == "") {
			t.Errorf("%s: whether it is there: %v", name, err)
		}
	}
}

// TestFileIsAnother: a file with another mark than the one that was made is not opened.
func TestFileIsAnother(t *testing.T) {
	t.Parallel()
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Second)
	m, path := still(t, store, "gw1"), config.Path(filepath.Join(t.TempDir(), "disk"))
	f := &files{gateway: &Gateway{name: "gw2", store: store}, known: map[config.Path]control.FileNote{}}
	_, err := m.Apply(inFile(t, string(path), ""), control.Options{})
	if err == nil {
		err = control.ServeGroup(t.Context(), m, 7, 1)
	}
	var n control.FileNote
	if err == nil {
		n, err = f.Get(t.Context(), path)
	}
	if err != nil || n.Gateway != "gw1" || len(n.Mark) == 0 {
		t.Fatalf("it is noted as %+v, %v", n, err)
	}
	if n.Mark[0]++; f.Known(path).Revision != n.Revision {
		t.Errorf("known is %+v", f.Known(path))
	}
	if _, err = f.Put(t.Context(), n); err == nil {
		err = control.DrainGroup(t.Context(), m, 7)
	}
	if err == nil {
		err = control.ServeGroup(t.Context(), m, 7, 2)
	}
	if w := m.Status().Waiting; err != nil || len(w) != 1 || !strings.Contains(w[0].Why, "is another file here") {
		t.Errorf("%v: it waits for %+v", err, w)
	}
}

// TestDiskIsAnother: a device with another identity than at the gateway that had it is not opened, as if /dev/sdb
// is another disk on each machine.
func TestDiskIsAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "disk"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", filepath.Join(dir, "disk")).Output()
	if err != nil {
		t.Skipf("losetup, as root: %v", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
	store := simulated.Share(simulated.New(rand.New(rand.NewPCG(1, 1)))).Open(time.Second)
	m, f := still(t, store, "gw1"), &files{gateway: &Gateway{name: "gw2", store: store}, known: map[config.Path]control.FileNote{}}
	doc, _, err := config.Parse("shared", fmt.Appendf(nil, "version: 1\nsubsystems:\n  - nqn: a\n    hosts: [{nqn: h}]\n    namespaces:\n      - {nsid: 1, ana-group: 7, block: {path: %s}, fence: lease}\n", device))
	if err == nil {
		_, err = m.Apply(doc, control.Options{})
	}
	if err == nil {
		err = control.ServeGroup(t.Context(), m, 7, 1)
	}
	n, noErr := f.Get(t.Context(), config.Path(device))
	if err != nil || noErr != nil || len(n.Disk) == 0 || n.Gateway != "gw1" {
		t.Fatalf("%v: it is noted as %+v, %v", err, n, noErr)
	}
	n.Gateway, n.Disk = "gw2", []string{"naa.5"}
	if _, err = f.Put(t.Context(), n); err == nil {
		err = control.DrainGroup(t.Context(), m, 7)
	}
	if err == nil {
		err = control.ServeGroup(t.Context(), m, 7, 2)
	}
	if w := m.Status().Waiting; err != nil || len(w) != 1 || !strings.Contains(w[0].Why, "it was naa.5 at gateway gw2, and is "+dir+"/disk;") {
		t.Errorf("%v: it waits for %+v", err, w)
	}
}
