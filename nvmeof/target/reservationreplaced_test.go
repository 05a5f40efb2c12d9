package target

import (
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestNoticesOfReplaced: what a host has not read of the reservations of a namespace is not told of another that replaces it,
// and what it is told of others stays.
func TestNoticesOfReplaced(t *testing.T) {
	f := newFixture(t)
	add := func(id capsule.NSID, u uuid.UUID) {
		t.Helper()
		_, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: id, UUID: u})
		f.must(err)
	}
	first, other := uuid.UUID{1}, uuid.UUID{2}
	add(5, first)
	add(6, uuid.UUID{3})
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	shared := capsule.ReservationWriteExclusiveRegistrantsOnly
	notice := func(id capsule.NSID) {
		t.Helper()
		a.register(capsule.StatusSuccess, id)
		b.register(capsule.StatusSuccess, id)
		a.acquire(capsule.StatusSuccess, id, shared)
		a.release(capsule.StatusSuccess, id, shared)
	}
	add(7, uuid.UUID{4})
	notice(7)
	f.must(f.sub.RemoveNamespace(7))
	add(7, uuid.UUID{5})
	f.target.barrier()
	b.admin.start(adminCommand(capsule.AdminAsyncEvent, nil, nil)).wantPending() // there is nothing to read
	notice(5)
	notice(6)
	f.must(f.sub.RemoveNamespace(5))
	add(5, first)
	f.target.barrier()
	if p := b.reservationPage(); p.NSID != 5 || p.Available != 1 {
		t.Errorf("a namespace that came back as it was: %+v", p)
	}
	notice(5)
	f.must(f.sub.RemoveNamespace(5))
	add(5, other)
	f.target.barrier()
	if p := b.reservationPage(); p.NSID != 6 || p.Available != 0 {
		t.Errorf("of one that was replaced: %+v", p)
	}
	for _, c := range []*tenant{b, a} {
		if p := c.reservationPage(); p != (capsule.ReservationLog{}) {
			t.Errorf("there is %+v", p)
		}
	}
}
