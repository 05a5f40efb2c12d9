package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// begin starts a new target with the files of a folder, and returns the UUID of namespace 1 and what it waits for.
func begin(t *testing.T, dir, text string, then func(*rig)) (id uuid.UUID, waits string) {
	t.Helper()
	return beginWith(t, filepath.Join(dir, "state", "files"), dir, text, then)
}

func beginWith(t *testing.T, state, dir, text string, then func(*rig)) (id uuid.UUID, waits string) {
	t.Helper()
	r := newRig(t, func(c *Config) { c.State = state })
	r.dir = dir
	doc := r.doc("version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - nsid: 1\n" + text)
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	for _, w := range r.Status().Waiting {
		waits = w.Why
		id = r.namespaceConfig("a", doc.Subsystems[0].Namespaces[0]).UUID
	}
	for _, s := range r.target.Subsystems() {
		for _, n := range s.Namespaces() {
			id = n.UUID()
		}
	}
	if then != nil {
		then(r)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return id, waits
}

// TestIdentityOfWhatIsLost: if data is lost, hosts do not read zeroes under its identity. Data that exists keeps
// its identity.
func TestIdentityOfWhatIsLost(t *testing.T) {
	const memory = "        memory:\n          size: 1MiB\n"
	const file = "        file:\n          path: DIR/disk\n          size: 1MiB\n"
	const named = "        uuid: 11111111-2222-3333-4444-555555555555\n"
	dir := t.TempDir()
	path := filepath.Join(dir, "disk")

	one, _ := begin(t, dir, memory, nil)
	two, _ := begin(t, dir, memory, nil)
	if one == two || one == uuid.Nil {
		t.Errorf("memory is %v after a restart, and was %v", two, one)
	}
	if id, _ := begin(t, dir, memory+named, nil); id.String() != "11111111-2222-3333-4444-555555555555" {
		t.Errorf("memory of which the document says what it is: %v", id)
	}

	one, _ = begin(t, dir, file, func(r *rig) {
		if r.logs.FilterMessage("file was missing and has been created: the namespace is empty").Len() != 1 {
			t.Error("the log does not say that the file is new")
		}
	})
	if two, _ = begin(t, dir, file, nil); one != two {
		t.Errorf("the same file is %v after a restart, and was %v", two, one)
	}
	if err := os.Rename(path, path+".away"); err != nil { // its file system is not mounted, say
		t.Fatal(err)
	}
	if two, waits := begin(t, dir, file, nil); waits == "" || two != one {
		t.Errorf("without the file it waits for %q, as %v instead of %v", waits, two, one)
	}
	if two, waits := beginWith(t, "", dir, file, nil); one == two || waits != "" {
		t.Errorf("an empty file in place of the one that is lost is %v, as that was; %s", two, waits)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if two, _ = begin(t, dir, file, nil); one != two {
		t.Errorf("the file is back, and is %v instead of %v", two, one)
	}
	if err := os.WriteFile(path+"2", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, _ := begin(t, dir, strings.Replace(file, "/disk", "/disk2", 1), nil); id != uuid.UUID(config.DefaultUUID("a", 1, path+"2", nil)) {
		t.Errorf("a file that the target did not create is %v", id)
	}
}

// TestMarkLost: if a file is restored without its extended attributes, a warning has the UUID by which hosts knew
// it.
func TestMarkLost(t *testing.T) {
	t.Parallel()
	const file = "        file:\n          path: DIR/disk\n          size: 1MiB\n"
	dir := t.TempDir()
	path := filepath.Join(dir, "disk")
	one, _ := begin(t, dir, file, nil)
	if err := os.WriteFile(path+".copy", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".copy", path); err != nil {
		t.Fatal(err)
	}
	for _, warned := range []int{1, 0} {
		two, _ := begin(t, dir, file, func(r *rig) {
			said := r.logs.FilterMessageSnippet("the namespace has another UUID now").FilterField(zap.Stringer("was", one))
			if said.Len() != warned {
				t.Errorf("the log says %d times that it was %v: %v", said.Len(), one, r.logs.All())
			}
		})
		if one == two {
			t.Errorf("a file without the mark is still %v", two)
		}
	}
}

// TestLostWithItsIdentity: if the document has the identity of a namespace, a missing file is waited for, unless an
// administrator requests a new one.
func TestLostWithItsIdentity(t *testing.T) {
	t.Parallel()
	const text = "        nguid: \"00112233445566778899aabbccddeeff\"\n        file:\n          path: DIR/disk\n          size: 1MiB\n"
	dir := t.TempDir()
	path := filepath.Join(dir, "disk")
	if _, waits := begin(t, dir, text, nil); waits != "" {
		t.Errorf("the first start waits: %s", waits)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, waits := begin(t, dir, text, func(r *rig) {
		if _, err := os.Stat(path); err == nil {
			t.Error("a later start has created the file")
		}
		if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		for limit := time.Now().Add(10 * time.Second); len(r.Status().Waiting) > 0 && time.Now().Before(limit); {
			time.Sleep(10 * time.Millisecond)
		}
		if left := r.Status().Waiting; len(left) > 0 {
			t.Errorf("the file is there, and it waits: %v", left)
		}
	})
	if !strings.Contains(waits, "truncate -s 1048576 "+path) {
		t.Errorf("it waits for %q", waits)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	r.dir = dir
	r.apply(r.doc("version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - nsid: 1\n" + text))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("apply has not created the file: %v", err)
	}
}

// trouble waits until the status has that trouble of namespace 1; empty: none.
func (r *rig) trouble(want string) {
	r.t.Helper()
	var got []Trouble
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		got = r.Status().Troubles
		if want == "" && len(got) == 0 || want != "" && len(got) == 1 && strings.Contains(got[0].Why, want) && got[0].NSID == 1 {
			return
		}
	}
	r.t.Errorf("troubles %+v, want %q", got, want)
}

// A mishap is an event that affects the file of a served namespace, and its trouble.
type mishap struct {
	do   func() error
	want string
}

func (r *rig) endure(all ...mishap) {
	r.t.Helper()
	r.trouble("")
	for _, m := range all {
		if err := m.do(); err != nil {
			r.t.Fatal(err)
		}
		r.trouble(m.want)
	}
}

// TestRemovedWhileServed: a file that is no longer at its path is reported in the log and in the status until it is
// back.
func TestRemovedWhileServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "disk")
	begin(t, dir, "        file:\n          path: DIR/disk\n          size: 1MiB\n", func(r *rig) {
		r.endure(
			mishap{func() error { return os.Rename(path, path+"2") }, "was moved"},
			mishap{func() error { return os.Rename(path+"2", path) }, ""},
			mishap{func() error { return os.Remove(path) }, "was removed while it is served"},
			mishap{func() error { return os.WriteFile(path+"3", nil, 0o600) }, "was removed while it is served"},
			mishap{func() error { return os.Rename(path+"3", path) }, "was replaced by another file while it is served: the content of the served file is lost"},
		)
		if n := r.logs.FilterMessageSnippet("is no longer at its path").Len(); n != 3 {
			t.Errorf("%d lines in the log, want 3", n)
		}
	})
}

// TestGrowAfterReplaced: if another file has replaced the one that is served, it is not extended.
func TestGrowAfterReplaced(t *testing.T) {
	r := newRig(t)
	r.apply(r.doc(first))
	path := string(r.doc(first).Subsystems[0].Namespaces[0].Path())
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	larger := r.doc(strings.Replace(first, "size: 1MiB", "size: 2MiB", 1))
	for _, o := range []Options{{DryRun: true}, {}} {
		if _, err := r.Apply(larger, o); err == nil || !strings.Contains(err.Error(), "replaced by another file while it is served") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	r.apply(larger)
	if info, err := os.Stat(path); err != nil || info.Size() != 2<<20 {
		t.Errorf("the file is back, and has %d bytes, %v", info.Size(), err)
	}
}

// TestCutOffWhileServed: likewise a file that was shortened, until it has its length again, or an administrator
// accepts it.
func TestCutOffWhileServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	size := func(n int64) func() error {
		return func() error { return os.Truncate(filepath.Join(dir, "disk"), n) }
	}
	begin(t, dir, "        file:\n          path: DIR/disk\n          size: 1MiB\n", func(r *rig) {
		const cut = "it had 1048576 bytes, and now has 524288: the data beyond its end is lost"
		r.endure(
			mishap{size(512 << 10), cut},
			mishap{size(256 << 10), "it had 1048576 bytes, and now has 262144"},
			mishap{size(512 << 10), cut},
			mishap{size(1 << 20), ""},
			mishap{size(0), "less than one block is left"},
			mishap{size(512 << 10), cut},
			mishap{func() error { return r.ClearFault("a", 1) }, ""},
		)
		if n := r.logs.FilterMessageSnippet("namespace became shorter while it is served").Len(); n != 3 {
			t.Errorf("%d lines in the log, want 3", n)
		}
		if err := r.ClearFault("a", 1); err == nil {
			t.Error("what has not failed is cleared")
		}
	})
}

// TestEmptiedWhileServed: a file that is emptied, and has its length again before it is checked, as when a host
// writes to its end, is reported, since hosts read zeroes. That ends when everything is written again, or an
// administrator accepts it.
func TestEmptiedWhileServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Type != unix.EXT4_SUPER_MAGIC && fs.Type != unix.XFS_SUPER_MAGIC && fs.Type != unix.TMPFS_MAGIC {
		t.Skip("the file system may give storage back by itself")
	}
	emptied := func() error { // in one moment, as Refresh sees it
		f, err := os.OpenFile(disk, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20), f.Close())
	}
	begin(t, dir, "        file:\n          path: DIR/disk\n          size: 1MiB\n", func(r *rig) {
		r.endure(
			mishap{emptied, "bytes of its storage are gone"},
			mishap{func() error {
				f, err := os.OpenFile(disk, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteAt(make([]byte, 1<<20), 0)
				return errors.Join(err, f.Sync(), f.Close())
			}, ""},
			mishap{emptied, "bytes of its storage are gone"},
			mishap{func() error { return r.ClearFault("a", 1) }, ""},
		)
		if n := r.logs.FilterMessageSnippet("has lost storage while it is served").Len(); n != 2 {
			t.Errorf("%d lines in the log, want 2", n)
		}
	})
}

// TestCreatedInVain: a file that was created and removed again by a failed change is not treated as lost.
func TestCreatedInVain(t *testing.T) {
	const text = "        nguid: \"00112233445566778899aabbccddeeff\"\n        file:\n          path: DIR/disk\n          size: 1MiB\n        reservations: DIR/resv\n"
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "resv"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, waits := begin(t, dir, text, nil); !strings.Contains(waits, "reservation") {
		t.Fatalf("it waits for %q", waits)
	}
	if err := os.Remove(filepath.Join(dir, "resv")); err != nil {
		t.Fatal(err)
	}
	if _, waits := begin(t, dir, text, nil); waits != "" {
		t.Errorf("no host ever saw it, and it waits: %s", waits)
	}
}

// TestRemovedAfterItWaited: a file that was created after a wait is kept when its namespace is removed, since hosts
// may have written to it.
func TestRemovedAfterItWaited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const others = "version: 1\nsubsystems:\n  - nqn: a\n"
	doc := r.doc(others + "    namespaces:\n      - nsid: 1\n        file:\n          path: DIR/d/disk\n          size: 1MiB\n")
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	if w := r.Status().Waiting; len(w) != 1 {
		t.Fatalf("waiting are %v", w)
	}
	if err := os.Mkdir(r.dir+"/d", 0o700); err != nil {
		t.Fatal(err)
	}
	r.await("it is there", func() bool { return len(r.Status().Waiting) == 0 })
	r.apply(r.doc(others))
	if _, err := os.Stat(r.dir + "/d/disk"); err != nil {
		t.Errorf("its namespace was removed, and what hosts wrote is lost: %v", err)
	}
}

// TestCutOff: at a start, a file that is shorter than hosts know it is not extended, since they would read zeroes,
// wherever its identity is from. One whose size is increased is, and a smaller size is accepted.
func TestCutOff(t *testing.T) {
	const file = "        file:\n          path: DIR/disk\n          size: 1MiB\n"
	longer, shorter := strings.Replace(file, "1MiB", "2MiB", 1), strings.Replace(file, "1MiB", "512KiB", 1)
	dir := t.TempDir()
	path := filepath.Join(dir, "disk")
	length := func(want int64) {
		t.Helper()
		if info, err := os.Stat(path); err != nil || info.Size() != want {
			t.Fatalf("%v, %v; want %d bytes", info, err, want)
		}
	}
	one, waits := begin(t, dir, file, nil)
	if waits != "" {
		t.Fatal(waits)
	}
	for _, size := range []int64{512 << 10, 0} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		two, waits := begin(t, dir, file, nil)
		if !strings.Contains(waits, "had 1048576") || two != one {
			t.Errorf("cut off to %d bytes it is %v instead of %v, and waits for %q", size, two, one, waits)
		}
		length(size)
	}
	if err := os.Truncate(path, 1<<20); err != nil { // it is restored
		t.Fatal(err)
	}
	begin(t, dir, longer, nil)
	length(2 << 20)
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, waits := begin(t, dir, longer, nil); !strings.Contains(waits, "had 2097152") {
		t.Errorf("the longer one is cut off, and waits for %q", waits)
	}
	if _, waits := begin(t, dir, file, nil); waits != "" {
		t.Errorf("as long as the document says it waits for %q", waits)
	}
	if _, waits := begin(t, dir, shorter, nil); waits != "" {
		t.Errorf("longer than the document says it waits for %q", waits)
	}
	length(1 << 20)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if two, waits := begin(t, dir, file, nil); !strings.Contains(waits, "rm "+path) || two != one {
		t.Errorf("an empty file is in its place, and it is %v instead of %v, and waits for %q", two, one, waits)
	}
	length(0)
}

// TestReopenedWhileLost: a change that opens a file again does not create it if it is missing or extend it if it
// was shortened, and does not close the one that hosts still use.
func TestReopenedWhileLost(t *testing.T) {
	const text = "version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - nsid: 1\n        uuid: 11111111-2222-3333-4444-555555555555\n" +
		"        file:\n          path: DIR/disk\n          size: 1MiB\n"
	for name, c := range map[string]struct {
		lose   func(path string) error
		edit   string
		forced bool // it can be forced
	}{
		"removed":      {os.Remove, "          buffered: true\n", true},
		"moved":        {func(path string) error { return os.Rename(path, path+".away") }, "          thin: true\n", true},
		"cut off":      {func(path string) error { return os.Truncate(path, 512<<10) }, "          buffered: true\n", true},
		"cut, resized": {func(path string) error { return os.Truncate(path, 512<<10) }, "2MiB", false},
	} {
		r := newRig(t, func(c *Config) { c.State = filepath.Join(t.TempDir(), "files") })
		before := r.doc(text)
		r.apply(before)
		path := filepath.Join(r.dir, "disk")
		if err := c.lose(path); err != nil {
			t.Fatal(err)
		}
		edited := text + c.edit
		if c.edit == "2MiB" {
			edited = strings.Replace(text, "1MiB", c.edit, 1)
		}
		was, _ := os.Stat(path)
		for _, o := range []Options{{DryRun: true}, {}} {
			if _, err := r.Apply(r.doc(edited), o); err == nil {
				t.Errorf("%s: %+v is carried out", name, o)
			}
			r.wantState(before)
			is, _ := os.Stat(path)
			if (was == nil) != (is == nil) || was != nil && was.Size() != is.Size() {
				t.Errorf("%s: %+v: the file is %v, and was %v", name, o, is, was)
			}
			if len(r.Status().Waiting) > 0 {
				t.Errorf("%s: %+v: %v", name, o, r.Status().Waiting)
			}
		}
		if _, err := r.Apply(r.doc(edited), Options{Force: true}); (err == nil) != c.forced {
			t.Errorf("%s: forced: %v", name, err)
		}
	}
}
