package control

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/nvmeof/host"
)

const leavingDoc = `version: 1
listeners:
  - id: 1
    address: ADDR:4420
subsystems:
  - nqn: a
    hosts:
      - nqn: h1
    namespaces:
      - nsid: 1
        file:
          path: DIR/a1
          size: 1MiB
  - nqn: b
    namespaces:
      - nsid: 1
        file:
          path: DIR/b1
          size: 1MiB
`

// TestUndoneRemoval: what hosts had set in a subsystem is kept if a change that removes it fails in any step.
func TestUndoneRemoval(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*rig, *config.Document){
		"listener": func(r *rig, d *config.Document) {
			d.Listeners = append(d.Listeners, r.doc("version: 1\nlisteners: [{id: 99, address: \"192.0.2.7:4420\"}]\n").Listeners...)
		},
		"growth": func(r *rig, d *config.Document) {
			d.Subsystems[0].Namespaces[0].File.Size *= 2
			_ = os.Rename(r.dir+"/b1", r.dir+"/elsewhere") // so that it cannot be extended
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			base := r.doc(leavingDoc)
			r.apply(base)
			h := newReturner(r)
			n, err := h.until(waitForHost).Namespace(t.Context(), 1)
			if err == nil {
				err = errors.Join(n.Reservations().Register(t.Context(), 7, host.RegisterOptions{}),
					n.Reservations().Acquire(t.Context(), 7, capsule.ReservationWriteExclusive),
					n.SetWriteProtection(t.Context(), capsule.WriteProtected))
			}
			if err != nil {
				t.Fatal(err)
			}
			want := r.doc(leavingDoc)
			want.Subsystems = want.Subsystems[1:]
			spoil(r, want)
			if _, err := r.Apply(want, Options{Force: true}); err == nil || !strings.HasSuffix(err.Error(), "everything is as it was before") {
				t.Fatal(err)
			}
			r.wantState(base)
			s, err := r.subsystem("a")
			if err != nil {
				t.Fatal(err)
			}
			if has := s.Namespaces()[0].Reservation(); has.Type != capsule.ReservationWriteExclusive || len(has.Registrants) != 1 {
				t.Errorf("reservation %+v", has)
			}
			if n, err = h.until(waitForHost).Namespace(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if p, err := n.WriteProtection(t.Context()); err != nil || p != capsule.WriteProtected {
				t.Errorf("write protection %v, %v", p, err)
			}
		})
	}
}

// TestUndoneRemovalForgets: a subsystem whose state file another one takes over is removed before the last step
// that can fail. The error says what was lost.
func TestUndoneRemovalForgets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	with := func(nqn string) *config.Document {
		return r.doc(strings.Replace(leavingDoc, "- nqn: "+nqn+"\n", "- nqn: "+nqn+"\n    state: DIR/state\n", 1))
	}
	base := with("a")
	r.apply(base)
	want := with("b")
	want.Subsystems = want.Subsystems[1:]
	fails := want.Clone()
	fails.Listeners = append(fails.Listeners, r.doc("version: 1\nlisteners: [{id: 99, address: \"192.0.2.7:4420\"}]\n").Listeners...)
	if _, err := r.Apply(fails, Options{Force: true}); err == nil || !strings.HasSuffix(err.Error(), "not all earlier steps could be undone: add subsystem a: "+errForgotten.Error()) {
		t.Error(err)
	}
	r.wantState(base)
	r.apply(want)
}

// TestRemovedUnsaved: a subsystem whose state cannot be saved is still removed, and the log says so.
func TestRemovedUnsaved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := os.Mkdir(r.dir+"/states", 0o700); err != nil {
		t.Fatal(err)
	}
	base := r.doc(strings.Replace(leavingDoc, "- nqn: a\n", "- nqn: a\n    state: DIR/states/a\n", 1))
	r.apply(base)
	want := r.doc(leavingDoc)
	want.Subsystems = want.Subsystems[1:]
	if err := os.Rename(r.dir+"/states", r.dir+"/elsewhere"); err != nil {
		t.Fatal(err)
	}
	r.apply(want)
	if r.logs.FilterMessage("subsystem is removed, with an error").Len() != 1 {
		t.Error("the log does not say that its state was not saved")
	}
}
