package target

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A fakeKeeper keeps a record for several targets. It answers in another goroutine.
type fakeKeeper struct {
	record []byte
	load   error
	keep   error
	asked  chan func(error) // receives the answer function of Keep; nil: Keep is answered at once
}

func (k *fakeKeeper) Load(answer func([]byte, error)) {
	go answer(k.record, k.load)
}

func (k *fakeKeeper) Keep(record []byte, answer func(error)) {
	done := func(err error) {
		if err == nil {
			k.record = record
		}
		answer(err)
	}
	if k.asked != nil {
		k.asked <- done
		return
	}
	go done(k.keep)
}

func (k *fakeKeeper) Confirm(answer func(error)) {
	if k.asked != nil {
		k.asked <- answer
		return
	}
	go answer(k.keep)
}

// keptNamespace returns the configuration of a namespace of two targets.
func keptNamespace(k *fakeKeeper, s backend.Store) NamespaceConfig {
	return NamespaceConfig{NSID: 2, UUID: uuid.UUID{9}, Store: s, Keeper: k, Name: "disk"}
}

// served returns a fixture that serves group 1, with such a namespace.
func served(t *testing.T, k *fakeKeeper, s backend.Store) (*fixture, *Gateway) {
	t.Helper()
	f, g := withGateway(t)
	f.at = f.listen("192.0.2.1:4420")
	_, err := f.sub.AddNamespace(keptNamespace(k, s))
	f.must(err)
	f.must(g.Serve(1, 1))
	return f, g
}

func entries(_ capsule.ReservationStatus, all []capsule.ReservationRegistrant) []capsule.ReservationRegistrant {
	return all
}

// TestKeeper: the next target that serves a namespace continues with its reservation, persistent or not. Hosts at
// other targets are notified, and a report names all controllers.
func TestKeeper(t *testing.T) {
	k, store := new(fakeKeeper), newFakeStore(1<<20)
	first, g := served(t, k, store)
	second, other := withGateway(t)
	second.at = second.listen("192.0.2.1:4420")
	cfg := keptNamespace(k, nil)
	cfg.Known = &store.info
	second.must(second.sub.AwaitNamespace(cfg))
	a, b := first.tenant("a", first.sub, 0), first.tenant("b", first.sub, 1)
	there := second.tenant("b", second.sub, 0)
	a.register(capsule.StatusSuccess, 2)
	b.register(capsule.StatusSuccess, 2)
	there.register(capsule.StatusANAInaccessible, 2)
	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	b.wantAccess(2, false, false)
	g.Directory = func(_ nvmeof.NQN, host capsule.HostID) []capsule.ControllerID {
		if host == b.id {
			return []capsule.ControllerID{4000}
		}
		return nil
	}
	all := entries(a.report(2))
	if len(all) != 3 || all[0].CNTLID == capsule.ControllerIDDynamic || all[0].Host != a.id || all[1].Host != b.id || all[2].Host != b.id ||
		(all[1].CNTLID == 4000) == (all[2].CNTLID == 4000) {
		t.Errorf("the report names %+v", all)
	}
	a.io.wantOK(a.preempt(2, capsule.PreemptReservation, exclusiveAccess, b.key))
	second.must(other.ReservationsChanged(testSubNQN, 2, k.record))
	if p := there.reservationPage(); p.NSID != 2 || p.Notice != capsule.NoticeRegistrationPreempted {
		t.Errorf("a host elsewhere is told %+v", p)
	}
	for what, err := range map[string]error{
		"no subsystem":    other.ReservationsChanged("nqn.2026-11.io.example:none", 2, k.record),
		"damaged":         other.ReservationsChanged(testSubNQN, 2, []byte("{}")),
		"no such target":  new(Gateway).ReservationsChanged(testSubNQN, 2, k.record),
		"another's":       other.ReservationsChanged(testSubNQN, 2, []byte(strings.Replace(string(k.record), "x", "y", 1))),
		"nothing is away": other.ReservationsChanged(testSubNQN, 9, k.record),
	} {
		if (err == nil) != (what == "nothing is away" || what == "another's" && !slices.Contains(k.record, 'x')) {
			t.Errorf("%s: %v", what, err)
		}
	}
	first.must(g.Drain(t.Context(), 1))
	cfg.Store = newFakeStore(1 << 20)
	_, err := second.sub.AddNamespace(cfg)
	second.must(err)
	second.must(other.Serve(1, 2))
	there.wantAccess(2, false, false)
	second.tenant("a", second.sub, 1).wantAccess(2, true, true)
	if lasting, err := LastingReservations(k.record); err != nil || strings.Contains(string(lasting), "registrants") {
		t.Errorf("of what was not to survive there is %s, %v", lasting, err)
	}
}

// TestKeeperConfirms: a command fails with a reservation conflict only when it is certain that no other target has
// changed the reservation. One answer is used for all waiting commands.
func TestKeeperConfirms(t *testing.T) {
	k := new(fakeKeeper)
	f, _ := served(t, k, newFakeStore(1<<20))
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	a.register(capsule.StatusSuccess, 2)
	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	k.asked = make(chan func(error))
	refused := func(n int) (all []*hostCommand) {
		for range n {
			all = append(all, b.io.start(writeOf(2)))
		}
		return all
	}
	want := func(all []*hostCommand, status capsule.Status) {
		t.Helper()
		for _, s := range all {
			if r := <-s.response; r.status != status {
				t.Errorf("%v, want %v", r.status, status)
			}
		}
	}
	first := refused(1)
	answer := <-k.asked
	others := refused(20)
	for _, s := range others {
		s.wantPending()
	}
	answer(nil)
	want(first, conflict)
	(<-k.asked)(nil)
	want(others, conflict)
	first = refused(1)
	answer = <-k.asked
	others = refused(20)
	for _, s := range others {
		s.wantPending()
	}
	answer(errors.New("the store of the group is away"))
	want(first, capsule.StatusANAInaccessible)
	(<-k.asked)(ErrNotOwner)
	want(others, capsule.StatusANAInaccessible)
	a.io.wantStatus(capsule.StatusANAInaccessible, readOf(2))
}

// TestKeeperLost: a target that is no longer the owner allows nothing; one that cannot load the record does not
// serve.
func TestKeeperLost(t *testing.T) {
	k := &fakeKeeper{asked: make(chan func(error))}
	f, _ := served(t, k, newFakeStore(1<<20))
	a := f.tenant("a", f.sub, 0)
	register := a.io.start(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{}, 0, a.key))
	answer := <-k.asked
	register.wantPending()
	a.io.wantOK(readOf(2))
	answer(errors.New("the store of the group is away"))
	if r := <-register.response; r.status != capsule.StatusANAInaccessible {
		t.Errorf("what could not be kept: %v", r.status)
	}
	report := a.io.start(ioCommand(capsule.IOReservationReport, 2, capsule.ReservationReport{Length: 4096, Extended: true}, make([]byte, 4096)))
	before := k.record
	(<-k.asked)(nil) // the state that the host has seen is saved again: the store may have another one
	if r := <-report.response; !r.status.OK() || string(k.record) == string(before) || !strings.Contains(string(k.record), `"registrants":[]`) {
		t.Errorf("report: %v of %s", r.status, k.record)
	}
	register = a.io.start(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{}, 0, a.key))
	(<-k.asked)(ErrNotOwner)
	if r := <-register.response; r.status != capsule.StatusANAInaccessible {
		t.Errorf("what another target has to do: %v", r.status)
	}
	for _, c := range []*hostCommand{readOf(2), writeOf(2), reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{}, 0, a.key)} {
		a.io.wantStatus(capsule.StatusANAInaccessible, c)
	}
	a.setFeature(capsule.StatusANAInaccessible, capsule.FeatureReservationPersist, 2, 1)
	cfg := keptNamespace(&fakeKeeper{load: errors.New("unreadable")}, newFakeStore(1<<20))
	cfg.NSID, cfg.UUID = 3, uuid.UUID{10}
	if _, err := f.sub.AddNamespace(cfg); err == nil || !strings.Contains(err.Error(), "unreadable") {
		t.Errorf("a namespace whose reservations are not known is served: %v", err)
	}
	ns := f.sub.Namespaces()[0]
	if ns.SetRefuseReservations(false); !ns.RefuseReservations() {
		t.Error("hosts reserve a namespace whose reservations nothing keeps")
	}
}
