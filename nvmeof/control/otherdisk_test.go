package control

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend/block"
)

// TestSameDisk: two devices differ only if both have identifiers, and none in common.
func TestSameDisk(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"", "", true}, {"one", "", true}, {"", "one", true}, {"one", "one", true}, {"one", "two", false},
		{"one two", "two three", true}, {"one two", "three", false},
	} {
		if got := sameDisk(strings.Fields(test.a), strings.Fields(test.b)); got != test.want {
			t.Errorf("%q and %q: %v", test.a, test.b, got)
		}
	}
	k := known(filepath.Join(t.TempDir(), "files"))
	for _, test := range []struct {
		now  string
		note bool
		want string
	}{
		{"", true, ""}, {"one", true, ""}, {"", true, ""}, {"one", false, ""},
		{"two", false, "it was one, and is two; "}, {"two", true, "it was one, and is two; "}, {"one", false, "it was two, and is one; "},
	} {
		now := strings.Fields(test.now)
		err := k.otherDisk("/dev/a", now)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, want %q", test.now, err, test.want)
		}
		if test.note {
			if err := k.addDisk("/dev/a", now); err != nil {
				t.Error(err)
			}
		}
	}
	if err := known("").otherDisk("/dev/a", []string{"one"}); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}

// TestDiskNoteDamaged: if the note of the disk that hosts know is unreadable, no disk is treated as that one.
func TestDiskNoteDamaged(t *testing.T) {
	t.Parallel()
	const disk, want = "/dev/a", "it is not known whether /dev/a is the same disk as before"
	for name, damage := range map[string]func(note string) error{
		"empty":              func(note string) error { return os.Truncate(note, 0) },
		"cut after the path": func(note string) error { return os.Truncate(note, int64(len(disk)+1)) },
		"in the path":        func(note string) error { return os.Truncate(note, int64(len(disk)-1)) },
		"of another":         func(note string) error { return os.WriteFile(note, []byte("/dev/b\none\n"), 0o600) },
		"a folder":           func(note string) error { return errors.Join(os.Remove(note), os.Mkdir(note, 0o700)) },
	} {
		k := known(filepath.Join(t.TempDir(), "files"))
		note := k.noteOf(disk, diskRecord)
		if err := errors.Join(k.addDisk(disk, []string{"one"}), k.otherDisk(disk, []string{"one"}), damage(note)); err != nil {
			t.Fatal(err)
		}
		err := k.otherDisk(disk, []string{"one"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "rm -r "+note) {
			t.Errorf("%s: %v, want %q", name, err, want)
			continue
		}
		if err := errors.Join(os.RemoveAll(note), k.otherDisk(disk, []string{"two"})); err != nil {
			t.Errorf("%s, after what is advised: %v", name, err)
		}
	}
}

// newDisk returns a loop device with a file of its own.
func newDisk(t *testing.T, dir, name string) (device string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", file).Output()
	if err != nil {
		t.Skipf("losetup, as root: %v", err)
	}
	device = strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
	if len(block.Identity(device)) == 0 {
		t.Skip("this kernel does not say what a loop device has")
	}
	return device
}

// point makes a name that of a device, as a restart of the machine may.
func point(t *testing.T, name, device string) {
	t.Helper()
	_ = os.Remove(name)
	if err := os.Symlink(device, name); err != nil {
		t.Fatal(err)
	}
}

// TestOtherDisk: hosts do not find the data of one disk under the identity of another that had its name.
func TestOtherDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two, name := newDisk(t, dir, "one"), newDisk(t, dir, "two"), filepath.Join(dir, "disk")
	const text = "        block:\n          path: DIR/disk\n"
	for _, step := range []struct {
		what, device, want string
	}{
		{"first", one, ""},
		{"again", one, ""},
		{"another has its name", two, dir + "/two; export the earlier disk by a persistent name"},
		{"its own again", one, ""},
		{"another has its name again", two, "it was " + dir + "/one, and is " + dir + "/two"},
	} {
		point(t, name, step.device)
		doc := (&rig{t: t, dir: dir}).doc("version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - nsid: 1\n" + text)
		foreseen := Foresee(t.Context(), doc, filepath.Join(dir, "state", "files"), os.Getenv)
		_, waits := begin(t, dir, text, nil)
		if (waits == "") != (step.want == "") || !strings.Contains(waits, step.want) {
			t.Errorf("%s: the namespace waits for %q, want %q", step.what, waits, step.want)
		}
		if (len(foreseen) == 0) != (waits == "") || waits != "" && foreseen[0].Text != waits {
			t.Errorf("%s: foreseen is %v", step.what, foreseen)
		}
		if _, note, found := strings.Cut(waits, ": rm "); step.what == "another has its name again" && found {
			if err := os.Remove(note); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, waits := begin(t, dir, text, nil); waits != "" {
		t.Errorf("after what is advised: %s", waits)
	}
}
