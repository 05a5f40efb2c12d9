package target

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestUnregister: a host that no longer exists excludes the others, which have not registered, from a namespace
// until an administrator ends its registration. Then the namespace is free, even after a restart, and registrants
// are notified.
func TestUnregister(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	open := func() (*fixture, *Namespace) {
		f := newFixture(t)
		n, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 2, Name: "disk.img", Reservations: ReservationFile(path)})
		f.must(err)
		return f, n
	}
	shared, ok := capsule.ReservationWriteExclusiveRegistrantsOnly, capsule.StatusSuccess
	f, n := open()
	a := f.tenant("a", f.sub, 0)
	a.io.wantOK(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{Persist: capsule.PersistSet}, 0, a.key))
	a.acquire(ok, 2, shared)
	a.io.lose()
	a.admin.lose()
	b, c := f.tenant("b", f.sub, 0), f.tenant("c", f.sub, 1)
	b.register(ok, 2)
	c.wantAccess(2, true, false)
	for f.sub.connectedControllers() > 2 {
		f.target.barrier()
	}
	r := n.Reservation()
	if len(r.Registrants) != 2 || r.Type != shared || !r.Persist || r.Registrants[0] != (Registrant{nqnA, a.id, a.key, true, false}) ||
		r.Registrants[1] != (Registrant{nqnB, b.id, b.key, false, true}) {
		t.Errorf("the reservation is %+v", r)
	}
	var state *StateError
	if err := n.Unregister(c.id); !errors.As(err, &state) || !strings.Contains(err.Error(), "no host is registered with the identifier") {
		t.Errorf("a host that is not registered: %v", err)
	}
	f.must(n.Unregister(a.id))
	c.wantAccess(2, true, true)
	if p := b.reservationPage(); p.Notice != capsule.NoticeReservationReleased || p.NSID != 2 {
		t.Errorf("b has the notice %+v", p)
	}
	if l := f.logs.FilterMessageSnippet("ended by an administrator").All(); len(l) != 1 || l[0].ContextMap()["host"] != nqnA {
		t.Errorf("logged %v", l)
	}
	f.must(f.target.Close())
	if err := n.Unregister(b.id); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("after the end of the target: %v", err)
	}

	f, n = open()
	if r := n.Reservation(); len(r.Registrants) != 1 || r.Registrants[0].ID != b.id || r.Type != 0 {
		t.Errorf("after the restart %+v", r)
	}
	f.must(f.target.Close())
}

// TestClearReservation is the same for all registrants.
func TestClearReservation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	open := func() (*fixture, *Namespace) {
		f := newFixture(t)
		n, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 2, Reservations: ReservationFile(path)})
		f.must(err)
		return f, n
	}
	f, n := open()
	b := f.tenant("b", f.sub, 0)
	b.io.wantOK(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{Persist: capsule.PersistSet}, 0, b.key))
	b.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	f.must(n.ClearReservation())
	if p := b.reservationPage(); p.Notice != capsule.NoticeReservationPreempted {
		t.Errorf("b has the notice %+v", p)
	}
	f.tenant("c", f.sub, 1).wantAccess(2, true, true)
	f.must(f.target.Close())
	f, n = open()
	if r := n.Reservation(); len(r.Registrants) != 0 || !r.Persist {
		t.Errorf("after the restart %+v", r)
	}
	f.must(f.sub.RemoveNamespace(2))
	if err := n.ClearReservation(); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("of a namespace that is removed: %v", err)
	}
}

// TestUnregisterNotSaved: a change that cannot be saved returns an error, and has no effect.
func TestUnregisterNotSaved(t *testing.T) {
	f := newFixture(t)
	store := &brokenReservations{}
	n, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 2, Reservations: store})
	f.must(err)
	a := f.tenant("a", f.sub, 0)
	a.io.wantOK(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{Persist: capsule.PersistSet}, 0, a.key))
	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	store.err = errors.New("disk is gone")
	for _, err := range []error{n.Unregister(a.id), n.ClearReservation()} {
		if err == nil || !strings.Contains(err.Error(), "disk is gone") {
			t.Errorf("error %v", err)
		}
	}
	f.tenant("c", f.sub, 1).wantAccess(2, false, false)
	if p := a.reservationPage(); p.Count != 0 {
		t.Errorf("a has the notice %+v", p)
	}
}
