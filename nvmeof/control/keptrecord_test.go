package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestReservationsMissing: if a reservation file is missing that existed before, its namespace waits, and the error
// says what to do if no host relies on it.
func TestReservationsMissing(t *testing.T) {
	t.Parallel()
	const text = "        memory:\n          size: 1MiB\n        reservations: DIR/resv\n"
	dir := t.TempDir()
	path, state := filepath.Join(dir, "resv"), filepath.Join(dir, "state", "files")
	missing := func(when string) (waits string) {
		t.Helper()
		if _, waits = begin(t, dir, text, nil); !strings.Contains(waits, path+" is missing (it was there before)") {
			t.Errorf("%s the namespace waits for %q", when, waits)
		}
		return waits
	}
	there := func(when string) {
		t.Helper()
		if _, waits := begin(t, dir, text, nil); waits != "" {
			t.Errorf("%s the namespace waits: %s", when, waits)
		}
	}
	save := func(r *rig) {
		if err := r.stores.reservationFile(config.Path(path)).Save([]byte("rubbish")); err != nil {
			t.Error(err)
		}
	}
	there("at first, without reservations,")
	there("the second time")
	begin(t, dir, text, save)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	waits := missing("without the file")
	doc := (&rig{t: t, dir: dir}).doc("version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - nsid: 1\n" + text)
	if found := Foresee(t.Context(), doc, state, os.Getenv); len(found) != 1 || found[0].Text != waits {
		t.Errorf("foreseen is %v", found)
	}
	_, note, _ := strings.Cut(waits, ": rm ")
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	there("after what is advised")

	begin(t, dir, text, save)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	begin(t, dir, text, func(r *rig) { // an administrator removes the namespace, and adds it again
		for _, namespaces := range [][]*config.Namespace{nil, doc.Subsystems[0].Namespaces} {
			want := doc.Clone()
			want.Subsystems[0].Namespaces = namespaces
			if _, err := r.Apply(want, Options{Force: true}); err != nil {
				t.Error(err)
			}
		}
		if w := r.Status().Waiting; len(w) != 0 {
			t.Errorf("it waits: %+v", w)
		}
	})
	there("after it was added anew")
}

// TestReservationsWithoutNotes: a target without a folder for notes does not know of earlier files.
func TestReservationsWithoutNotes(t *testing.T) {
	t.Parallel()
	const text = "        memory:\n          size: 1MiB\n        reservations: DIR/resv\n"
	dir := t.TempDir()
	path := filepath.Join(dir, "resv")
	save := func(r *rig) {
		if err := r.stores.reservationFile(config.Path(path)).Save([]byte("rubbish")); err != nil {
			t.Error(err)
		}
	}
	if _, waits := beginWith(t, "", dir, text, save); waits != "" {
		t.Error(waits)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, waits := beginWith(t, "", dir, text, nil); waits != "" {
		t.Errorf("a target without a folder for its notes waits: %s", waits)
	}
}

// TestReservationsMissingWhileServed: a reservation file that is removed while the target runs does not prevent a
// change, after which it is saved again.
func TestReservationsMissingWhileServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.State = filepath.Join(t.TempDir(), "files") })
	text := "version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - {nsid: 1, memory: {size: 1MiB}, reservations: DIR/resv}\n"
	if _, err := r.Apply(r.doc(text), Options{}); err != nil {
		t.Fatal(err)
	}
	if err := r.stores.reservationFile(config.Path(r.dir + "/resv")).Save([]byte("rubbish")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(r.dir + "/resv"); err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, "1MiB}", "1MiB}, block-size: 4096", 1)
	if _, err := r.Apply(r.doc(text), Options{Force: true}); err != nil {
		t.Error(err)
	}
}

// TestReservationsNotSaved: if a change removes the reservation file from the document, a warning explains the
// effect, also in a dry run.
func TestReservationsNotSaved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const text = "version: 1\nsubsystems:\n  - nqn: a\n    namespaces:\n      - {nsid: 1, memory: {size: 1MiB}, reservations: DIR/resv}\n"
	without := r.doc(strings.Replace(text, ", reservations: DIR/resv", "", 1))
	apply := func(doc *config.Document, o Options, want bool) {
		t.Helper()
		out, err := r.Apply(doc, o)
		if err != nil || strings.Contains(out.Warnings.Error(), "reservations are no longer saved") != want {
			t.Errorf("%v, %v; want a warning: %v", out, err, want)
		}
	}
	apply(r.doc(text), Options{}, false)
	apply(without, Options{DryRun: true}, true)
	apply(without, Options{}, true)
	apply(r.doc(text), Options{}, false)
	apply(r.doc(strings.Replace(text, "DIR/resv", "DIR/other", 1)), Options{}, false)
}

// TestNotesUnreadable: if notes cannot be read, a missing reservation file is not created. If the note of its
// length is damaged, a file that may have been cut short is not extended.
func TestNotesUnreadable(t *testing.T) {
	t.Parallel()
	const text = "        file:\n          path: DIR/disk\n          size: 1MiB\n        reservations: DIR/resv\n"
	dir := t.TempDir()
	resv, disk, notes := filepath.Join(dir, "resv"), filepath.Join(dir, "disk"), filepath.Join(dir, "state", "files")
	ok := func(when string, then func(*rig)) {
		t.Helper()
		if _, waits := begin(t, dir, text, then); waits != "" {
			t.Errorf("%s the namespace waits: %s", when, waits)
		}
	}
	waits := func(want string) {
		t.Helper()
		if _, waits := begin(t, dir, text, nil); !strings.Contains(waits, want) {
			t.Errorf("the namespace waits for %q, want %q", waits, want)
		}
	}
	do := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	ok("at first", func(r *rig) {
		if err := r.stores.reservationFile(config.Path(resv)).Save([]byte("rubbish")); err != nil {
			t.Error(err)
		}
	})
	do(os.Rename(resv, resv+".kept"), os.Rename(notes, notes+".kept"), os.Symlink("files", notes))
	waits(resv + " is missing, and it is not known whether it existed before")
	do(os.Remove(notes), os.Rename(notes+".kept", notes))
	waits(resv + " is missing (it was there before)")
	do(os.RemoveAll(notes))
	ok("without notes", nil)

	all, err := filepath.Glob(filepath.Join(notes, "*[0-9a-f]"))
	if err != nil || len(all) != 1 {
		t.Fatalf("the notes are %v, %v", all, err)
	}
	do(os.Truncate(all[0], 5))
	ok("with a damaged note of a file that is whole", nil)
	do(os.Truncate(all[0], 5), os.Truncate(disk, 4096))
	waits(disk + " has 4096 bytes of 1048576, and its earlier length is not known")
	do(os.Remove(all[0]), os.Mkdir(all[0], 0o700))
	waits("its earlier length is not known")
	do(os.Remove(all[0]))
	ok("after what is advised", nil)
}
