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

const twoReserved = `version: 1
listeners: [{id: 1, address: "ADDR:4420"}]
subsystems:
  - nqn: a
    allow-any-host: true
    namespaces:
      - {nsid: 1, file: {path: DIR/one, size: 1MiB}, reservations: DIR/resv1}
      - {nsid: 2, file: {path: DIR/two, size: 1MiB}, reservations: DIR/resv2}
`

// liveReserved runs a target with two namespaces with reservations, and checks why they wait at first.
func liveReserved(t *testing.T, dir string, then func(*rig), waits ...string) {
	t.Helper()
	r := newRig(t)
	r.dir = dir
	if _, err := r.Apply(r.doc(twoReserved), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	w := r.Status().Waiting
	if len(w) != len(waits) {
		t.Errorf("waiting are %+v", w)
	}
	for i, why := range waits {
		if i < len(w) && !strings.Contains(w[i].Why, why) {
			t.Errorf("it waits for %q, want %q", w[i].Why, why)
		}
	}
	then(r)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// reserve makes a host reserve namespace 1 persistently.
func (r *rig) reserve() {
	con := newReturner(r).until(waitForHost)
	n, err := con.Namespace(r.t.Context(), 1)
	if err == nil {
		err = errors.Join(n.Reservations().Register(r.t.Context(), 7, host.RegisterOptions{Persist: host.PersistAlways}),
			n.Reservations().Acquire(r.t.Context(), 7, capsule.ReservationExclusiveAccess))
	}
	if err := errors.Join(err, con.Disconnect(r.t.Context())); err != nil {
		r.t.Error(err)
	}
}

// TestReservationsSwapped: a reservation file of another namespace is not used, at a start or by a change, and not
// overwritten. One that was saved before files had an owner is used. A namespace that gets another UUID keeps its
// reservations.
func TestReservationsSwapped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	swap := func() {
		t.Helper()
		err := errors.Join(os.Rename(path("resv1"), path("x")), os.Rename(path("resv2"), path("resv1")), os.Rename(path("x"), path("resv2")))
		if err != nil {
			t.Fatal(err)
		}
	}
	const old = `{"version":1,"crc32c":"147e9acc","state":null}`
	if err := os.WriteFile(path("resv2"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	liveReserved(t, dir, (*rig).reserve)
	if b, err := os.ReadFile(path("resv2")); err != nil || string(b) == old {
		t.Errorf("it does not say whose it is: %s, %v", b, err)
	}
	swap()
	one, two := path("resv1")+" belong to namespace 2 of a (UUID ", path("resv2")+" belong to namespace 1 of a (UUID "
	liveReserved(t, dir, func(r *rig) {
		found := Foresee(t.Context(), r.doc(twoReserved), "", os.Getenv)
		if len(found) != 2 || !strings.Contains(found[0].Text, one) {
			t.Errorf("foreseen is %v", found)
		}
		swap()
		r.await("they are there", func() bool { return len(r.Status().Waiting) == 0 })
		if has := r.target.Subsystems()[0].Namespaces()[0].Reservation(); has.Type != capsule.ReservationExclusiveAccess {
			t.Errorf("its reservation is %+v", has)
		}
		for _, o := range []Options{{DryRun: true}, {}} {
			changed := strings.NewReplacer("resv1", "resv2", "resv2", "resv1").Replace(twoReserved)
			if _, err := r.Apply(r.doc(changed), o); err == nil || !strings.Contains(err.Error(), "if two files were swapped, put back the one of this namespace") || !strings.Contains(err.Error(), "if this namespace has the data of the other one, give it the other's uuid") {
				t.Errorf("%+v: %v", o, err)
			}
			r.wantState(r.doc(twoReserved))
		}
		r.apply(r.doc(strings.Replace(twoReserved, "{nsid: 1,", "{nsid: 1, uuid: 11111111-2222-3333-4444-555555555555,", 1)))
	}, one, two)
}
