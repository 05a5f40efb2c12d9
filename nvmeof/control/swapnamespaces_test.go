package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

// Two files are exchanged between the namespaces of a document.
const (
	twoFiles = `version: 1
listeners: [{id: 1, address: "ADDR:4420"}]
subsystems:
  - nqn: a
    allow-any-host: true
    state: DIR/state
    namespaces:
      - {nsid: 1, file: {path: DIR/one, size: 1MiB}}
      - {nsid: 2, file: {path: DIR/two, size: 1MiB}}
`
	uuidOne = ", uuid: 11111111-2222-3333-4444-555555555555"
	uuidTwo = ", uuid: 22222222-2222-3333-4444-555555555555"
)

// withRecords names a file for the reservations of each file.
func withRecords(text string) string {
	return strings.NewReplacer("DIR/one, size: 1MiB}", "DIR/one, size: 1MiB}, reservations: DIR/resv1", "DIR/two, size: 1MiB}",
		"DIR/two, size: 1MiB}, reservations: DIR/resv2").Replace(text)
}

// swapped exchanges two parts of a document.
func swapped(text string, marks ...string) string {
	return strings.NewReplacer(marks[0], marks[1], marks[1], marks[0]).Replace(text)
}

// wantReserved checks the reservations of the namespaces, in order.
func (r *rig) wantReserved(want ...capsule.ReservationType) {
	r.t.Helper()
	for i, n := range r.target.Subsystems()[0].Namespaces() {
		if has := n.Reservation(); has.Type != want[i] {
			r.t.Errorf("namespace %d has reservation %v, want %v", n.ID(), has.Type, want[i])
		}
	}
}

const (
	none      = capsule.ReservationNone
	exclusive = capsule.ReservationExclusiveAccess
)

// TestFilesSwapped: a change that exchanges files, but not their reservation files, is refused. At a start both
// namespaces wait: the one whose file is reserved, and the one that would be without its reservations. If they are
// exchanged too, the reservations stay with the files.
func TestFilesSwapped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := withRecords(twoFiles)
	files := swapped(text, "DIR/one,", "DIR/two,")
	whole := swapped(text, "DIR/one, size: 1MiB}, reservations: DIR/resv1", "DIR/two, size: 1MiB}, reservations: DIR/resv2")
	life := func(text string, then func(*rig)) {
		t.Helper()
		r := newRig(t)
		r.dir = dir
		if _, err := r.Apply(r.doc(text), Options{Wait: true}); err != nil {
			t.Fatal(err)
		}
		then(r)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	life(text, func(r *rig) {
		r.reserve()
		for _, o := range []Options{{DryRun: true}, {}, {Force: true}} {
			if _, err := r.Apply(r.doc(files), o); err == nil || !strings.Contains(err.Error(), "if two files were swapped, put back the one of this namespace") {
				t.Errorf("%+v: %v", o, err)
			}
			r.wantReserved(exclusive, none)
		}
		r.apply(r.doc(whole))
		r.wantReserved(none, exclusive)
		r.apply(r.doc(text))
		r.wantReserved(exclusive, none)
	})
	life(files, func(r *rig) {
		w := r.Status().Waiting
		if len(w) != 2 || !strings.Contains(w[0].Why, "resv1 belong to namespace 1 of a (UUID ") || !strings.Contains(w[1].Why, "its reservations are in "+dir+"/resv1") {
			t.Errorf("waiting are %+v", w)
		}
		if found := Foresee(t.Context(), r.doc(files), "", os.Getenv); len(found) != 2 {
			t.Errorf("foreseen is %v", found)
		}
	})
	life(whole, func(r *rig) {
		if w := r.Status().Waiting; len(w) > 0 {
			t.Errorf("waiting are %+v", w)
		}
		r.wantReserved(none, exclusive)
	})
}

// TestReservedInMemory: reservations that are not saved stay with a file that gets another NSID, and end with it.
func TestReservedInMemory(t *testing.T) {
	t.Parallel()
	for _, text := range []string{twoFiles, strings.NewReplacer("DIR/one, size: 1MiB}", "DIR/one, size: 1MiB}"+uuidOne,
		"DIR/two, size: 1MiB}", "DIR/two, size: 1MiB}"+uuidTwo).Replace(twoFiles)} {
		r := newRig(t)
		r.apply(r.doc(text))
		con := newReturner(r).until(waitForHost)
		n, err := con.Namespace(t.Context(), 1)
		if err == nil {
			err = errors.Join(n.Reservations().Register(t.Context(), 7, host.RegisterOptions{}), n.Reservations().Acquire(t.Context(), 7, exclusive))
		}
		if err := errors.Join(err, con.Disconnect(t.Context())); err != nil {
			t.Fatal(err)
		}
		r.apply(r.doc(swapped(text, "nsid: 1", "nsid: 2")))
		r.wantReserved(none, exclusive)
		r.apply(r.doc(text))
		r.wantReserved(exclusive, none)
		r.write("three", make([]byte, 1<<20))
		r.apply(r.doc(strings.Replace(text, "DIR/one, size: 1MiB}", "DIR/three}", 1)))
		if strings.Contains(text, "uuid:") {
			r.wantReserved(exclusive, none) // it is the same to hosts
		} else {
			r.wantReserved(none, none)
		}
	}
}

// TestProtectedSwapped: write protection stays with a file that gets another NSID, also after a crash, and when it
// is changed back. A namespace that has its NSID meanwhile is not protected.
func TestProtectedSwapped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := swapped(twoFiles, "nsid: 1", "nsid: 2")
	r := newRig(t)
	r.dir = dir
	r.apply(r.doc(twoFiles))
	con := newReturner(r).until(waitForHost)
	n, err := con.Namespace(t.Context(), 1)
	if err == nil {
		err = n.SetWriteProtection(t.Context(), capsule.WriteProtected)
	}
	if err := errors.Join(err, con.Disconnect(t.Context())); err != nil {
		t.Fatal(err)
	}
	r.apply(r.doc(other))
	r.wantProtected(false, true)
	killed, err := os.ReadFile(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	r.apply(r.doc(twoFiles))
	r.wantProtected(true, false)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "state"), killed, 0o600); err != nil {
		t.Fatal(err)
	}
	r = newRig(t)
	r.dir = dir
	r.apply(r.doc(other))
	r.wantProtected(false, true)
	r.apply(r.doc(twoFiles))
	r.wantProtected(true, false)
}

// wantProtected checks which namespaces refuse writes.
func (r *rig) wantProtected(want ...bool) {
	r.t.Helper()
	con := newReturner(r).until(waitForHost)
	for i, want := range want {
		n, err := con.Namespace(r.t.Context(), capsule.NSID(i+1))
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := n.WriteAt(make([]byte, 512), 0); (err != nil) != want {
			r.t.Errorf("a write to namespace %d ends with %v, protected %v", i+1, err, want)
		}
	}
	if err := con.Disconnect(r.t.Context()); err != nil {
		r.t.Error(err)
	}
}
