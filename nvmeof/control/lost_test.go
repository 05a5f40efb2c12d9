package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// begin starts a target anew with the files of a folder, and returns the UUID of
// namespace 1, and what it waits for.
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

// TestIdentityOfWhatIsLost: data that is gone is not found as zeroes under the identity
// that hosts know; data that is there keeps its.
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
		if r.logs.FilterMessage("file was missing, and is created: the namespace is empty").Len() != 1 {
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

// TestLostWithItsIdentity: where the document says by what hosts know a namespace a
// missing file is waited for, unless an administrator asks for a new one.
func TestLostWithItsIdentity(t *testing.T) {
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

// TestRemovedWhileServed: a file that is not in its place any more is trouble, said in the
// log and to whoever asks, until it is back.
func TestRemovedWhileServed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "disk")
	begin(t, dir, "        file:\n          path: DIR/disk\n          size: 1MiB\n", func(r *rig) {
		trouble := func(want string) {
			t.Helper()
			var got []Trouble
			for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
				got = r.Status().Troubles
				if want == "" && len(got) == 0 || want != "" && len(got) == 1 && strings.Contains(got[0].Why, want) && got[0].NSID == 1 {
					return
				}
			}
			t.Errorf("troubles %+v, want %q", got, want)
		}
		trouble("")
		for _, step := range []struct {
			do   func() error
			want string
		}{
			{func() error { return os.Rename(path, path+"2") }, "was moved"},
			{func() error { return os.Rename(path+"2", path) }, ""},
			{func() error { return os.Remove(path) }, "was removed while it is served"},
		} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			trouble(step.want)
		}
		if n := r.logs.FilterMessageSnippet("is not in its place any more").Len(); n != 2 {
			t.Errorf("%d lines in the log, want 2", n)
		}
	})
}

// TestCreatedInVain: a file that was created and taken back, since nobody came to serve it,
// is not taken for one whose data is lost.
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

// TestRemovedAfterItWaited: a file that was created when what it waited for was there holds
// what hosts wrote, and stays when its namespace goes.
func TestRemovedAfterItWaited(t *testing.T) {
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
