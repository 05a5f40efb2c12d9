package control

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// TestState: a document's state counts the starts of the target, and is unlocked when that has ended.
func TestState(t *testing.T) {
	dir := t.TempDir()
	for _, cycles := range []string{`"power-cycles":1,`, `"power-cycles":2,`} {
		r := newRig(t)
		r.dir = dir
		doc := r.doc(strings.Replace(first, "  - nqn: a\n", "  - nqn: a\n    state: DIR/state\n", 1))
		r.apply(doc)
		text := func(want ...string) {
			t.Helper()
			b, err := os.ReadFile(dir + "/state")
			for _, w := range want {
				if err != nil || !strings.Contains(string(b), w) {
					t.Errorf("no %s in %s, %v", w, b, err)
				}
			}
		}
		text(cycles, `"running":true`)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		text(cycles, `"running":false`)
	}
	unlock, err := target.StateFile(dir + "/state").Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// twoLives starts a target with two subsystems, the first of which has a state, with the files of a folder.
func twoLives(t *testing.T, dir string, change ...func(*Config)) (*rig, *returner) {
	t.Helper()
	text := strings.Replace(first, "  - nqn: a\n", "  - nqn: a\n    state: DIR/state\n", 1)
	text = strings.Replace(text, "referrals:", "  - nqn: b\n    allow-any-host: true\n    namespaces:\n      - {nsid: 1, memory: {size: 1MiB}}\nreferrals:", 1)
	r := newRig(t, change...)
	r.dir = dir
	if _, err := r.Apply(r.doc(text), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	return r, newReturner(r)
}

// protectedState returns the state of such a target that has ended, after a host protected namespace 1 of the first
// subsystem.
func protectedState(t *testing.T, dir string, change ...func(*Config)) []byte {
	t.Helper()
	r, h := twoLives(t, dir, change...)
	con := h.until(waitForHost)
	n, err := con.Namespace(t.Context(), 1)
	if err == nil {
		err = n.SetWriteProtection(t.Context(), capsule.WriteProtected)
	}
	if err := errors.Join(err, con.Disconnect(t.Context()), r.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStateNotRight: if a state is unreadable, only its subsystem's namespaces wait, since hosts may have protected
// them. The file is not overwritten. When it is restored, the namespaces are as hosts left them; when it is
// removed, they have no settings.
func TestStateNotRight(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	notes := filepath.Join(t.TempDir(), "files")
	with := func(c *Config) { c.State = notes }
	whole := protectedState(t, dir, with)
	damaged := whole[:len(whole)/2]
	for name, c := range map[string]struct {
		why       string
		mend      func() error
		protected bool
	}{
		"restored": {"counters in " + path, func() error { return os.WriteFile(path, whole, 0o600) }, true},
		"removed": {"or remove it if no host relies on its write protection: " + known(notes).removal(config.Path(path), stateRecord),
			func() error { return asAdvised(path, known(notes).removal(config.Path(path), stateRecord)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			r, h := twoLives(t, dir, with)
			w := r.Status().Waiting
			if len(w) != 2 || w[0].Subsystem != "a" || w[1].Subsystem != "a" || !strings.Contains(w[0].Why, c.why) {
				t.Fatalf("waiting are %+v, want both of a, with %q", w, c.why)
			}
			if found := Foresee(t.Context(), r.Document(), notes, os.Getenv); len(found) == 0 || !strings.HasSuffix(w[0].Why, found[0].Text) {
				t.Errorf("foreseen is %v", found)
			}
			if lines := r.logs.FilterMessage("namespace waits for its store").Len(); lines != 2 {
				t.Errorf("%d lines in the log", lines)
			}
			h.options.NQN = "b"
			other := h.until(waitForHost)
			if _, err := other.Namespace(t.Context(), 1); err != nil {
				t.Errorf("what another subsystem has: %v", err)
			}
			h.options.NQN = "a"
			con := h.until(waitForHost)
			if _, err := con.Namespace(t.Context(), 1); !errors.Is(err, host.ErrNotReady) {
				t.Errorf("what waits: %v", err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, damaged) {
				t.Errorf("it is written over: %q, %v", got, err)
			}
			if err := c.mend(); err != nil {
				t.Fatal(err)
			}
			r.await("they are there", func() bool { return len(r.Status().Waiting) == 0 })
			n, err := con.Namespace(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.WriteAt(make([]byte, 512), 0); (err != nil) != c.protected {
				t.Errorf("a write ends with %v, protected %v", err, c.protected)
			}
			if err := errors.Join(con.Disconnect(t.Context()), other.Disconnect(t.Context()), r.Close()); err != nil {
				t.Error(err)
			}
			if err := (target.StateFile(path)).Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStateIsJudged: a change to a state that is unreadable is refused, also in a dry run.
func TestStateIsJudged(t *testing.T) {
	r := newRig(t)
	r.write("state", []byte("rubbish"))
	before := r.doc(first)
	for _, there := range []bool{false, true} {
		for _, dry := range []bool{true, false} {
			_, err := r.Apply(r.doc(strings.Replace(first, "  - nqn: a\n", "  - nqn: a\n    state: DIR/state\n", 1)), Options{DryRun: dry})
			if err == nil || !strings.Contains(err.Error(), r.dir+"/state") {
				t.Errorf("the subsystem there: %v, dry: %v: %v", there, dry, err)
			}
		}
		r.apply(before)
	}
}

// asAdvised removes what a command line in an error's advice removes.
func asAdvised(path, line string) error {
	rest, ok := strings.CutPrefix(line, "rm -f "+path+" ")
	if !ok {
		return fmt.Errorf("%q does not remove %s, and more", line, path)
	}
	return errors.Join(os.Remove(path), os.Remove(rest))
}

// TestStateMissing: if a state is missing at a start that existed before, only its subsystem's namespaces wait,
// since hosts may have protected them. A first start logs that it creates one. An administrator who adds the
// subsystem again creates one too.
func TestStateMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notes := filepath.Join(t.TempDir(), "files")
	with := func(c *Config) { c.State = notes }
	path := filepath.Join(dir, "state")
	whole := protectedState(t, dir, with)
	const begun = "state file did not exist and has been created: the SMART counters are zero, and no namespace is write-protected"
	for name, c := range map[string]struct {
		mend      func(r *rig, note string) error
		protected bool
	}{
		"restored": {func(*rig, string) error { return os.WriteFile(path, whole, 0o600) }, true},
		"given up": {func(_ *rig, note string) error { return os.Remove(note) }, false},
		"anew": {func(r *rig, _ string) error {
			doc := r.Document()
			without := doc.Clone()
			without.Subsystems = without.Subsystems[1:]
			_, err := r.Apply(without, Options{Force: true})
			_, again := r.Apply(doc, Options{})
			return errors.Join(err, again)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			r, h := twoLives(t, dir, with)
			w := r.Status().Waiting
			if len(w) != 2 || w[0].Subsystem != "a" || w[1].Subsystem != "a" || !strings.Contains(w[0].Why, path+" is missing (it was there before)") {
				t.Fatalf("waiting are %+v, want both of a", w)
			}
			if found := Foresee(t.Context(), r.Document(), notes, os.Getenv); len(found) == 0 || found[0].Path != "subsystems[0].state" || !strings.HasSuffix(w[0].Why, found[0].Text) {
				t.Errorf("foreseen is %v", found)
			}
			if r.logs.FilterMessage(begun).Len() > 0 {
				t.Error("it is begun")
			}
			h.options.NQN = "b"
			if err := h.until(waitForHost).Disconnect(t.Context()); err != nil {
				t.Error(err)
			}
			_, note, _ := strings.Cut(w[0].Why, ": rm ")
			if err := c.mend(r, note); err != nil {
				t.Fatal(err)
			}
			r.await("they are there", func() bool { return len(r.Status().Waiting) == 0 })
			if lines := r.logs.FilterMessage(begun).Len(); (lines == 1) == c.protected {
				t.Errorf("%d lines say that it is begun", lines)
			}
			h.options.NQN = "a"
			con := h.until(waitForHost)
			n, err := con.Namespace(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.WriteAt(make([]byte, 512), 0); (err != nil) != c.protected {
				t.Errorf("a write ends with %v, protected %v", err, c.protected)
			}
			if err := errors.Join(con.Disconnect(t.Context()), r.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
