package target

import (
	"bytes"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/ana"
)

// wantAway checks that the host finds the namespace listed and inaccessible. No command fails with Do Not Retry.
func (a *association) wantAway(id capsule.NSID) {
	t := a.f.t
	t.Helper()
	const away = capsule.StatusANAInaccessible
	a.io.wantStatus(away, readOf(id))
	a.io.wantStatus(away, writeOf(id))
	a.io.wantStatus(away, ioCommand(capsule.IOFlush, id, nil, nil))
	a.io.wantStatus(away, ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil)) // not all namespaces can be flushed
	a.admin.wantStatus(away, aboutNamespace(adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: capsule.FeatureNamespaceWriteProtect}, nil), id))
	a.admin.wantStatus(away, aboutNamespace(adminCommand(capsule.AdminGetLogPage,
		capsule.GetLogPage{LID: capsule.LogSMART, Length: capsule.SMARTLogSize}, make([]byte, capsule.SMARTLogSize)), id))
	if id := a.identify(id); id.NSZE != 0 || id.NCAP != 0 || id.ANAGRPID != ana.Away || id.NGUID == [16]byte{} {
		t.Errorf("identify: %+v", id)
	}
	i, err := capsule.DecodeIdentifyNamespaceIndependent(identifyInto(a.admin, capsule.CNSNamespaceIndependent, id))
	if err != nil || i.NSTAT&capsule.NSTATReady != 0 || i.ANAGRPID != ana.Away {
		t.Errorf("independent of the command set: %+v, %v", i, err)
	}
	if b := identifyInto(a.admin, capsule.CNSDescriptors, id); b[0] == 0 {
		t.Error("it has no identifiers")
	}
	_, groups := a.readANA(0)
	for _, g := range groups {
		if g.Group == ana.Away && g.State == capsule.ANAInaccessible {
			return
		}
	}
	t.Errorf("the ANA log is\n%s", states(groups))
}

func aboutNamespace(c *hostCommand, id capsule.NSID) *hostCommand {
	c.sqe.NSID = id
	return c
}

// TestAwayNamespace: a namespace whose store is missing at the start is listed and waits. It becomes accessible
// with an event and as announced, goes away for a change, returns, and is removed.
func TestAwayNamespace(t *testing.T) {
	f := newFixture(t)
	id := uuid.New()
	cfg := NamespaceConfig{NSID: 5, UUID: id, Group: 3, Name: "test"}
	f.must(f.sub.AwaitNamespace(cfg))
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	a.sees(1, 5)
	a.wantAway(5)
	a.io.wantOK(readOf(1))
	if len(f.sub.Namespaces()) != 1 {
		t.Error("an administrator finds it among those that are there")
	}
	before := identifyInto(a.admin, capsule.CNSDescriptors, 5)

	e := a.event()
	cfg.Store = newFakeStore(1 << 20)
	_, err := f.sub.AddNamespace(cfg)
	f.must(err)
	a.wantChanged(e, 5)
	a.wantEvent(a.event(), capsule.NoticeANAChange, capsule.LogANA)
	a.io.wantOK(readOf(5))
	if !bytes.Equal(identifyInto(a.admin, capsule.CNSDescriptors, 5), before) {
		t.Error("it is another now")
	}
	if i, err := capsule.DecodeIdentifyNamespaceIndependent(identifyInto(a.admin, capsule.CNSNamespaceIndependent, 5)); err != nil || i.NSTAT&capsule.NSTATReady == 0 {
		t.Errorf("not ready: %+v, %v", i, err)
	}
	_, groups := a.readANA(0)
	if got := states(groups); got != "1 optimized [1]\n3 optimized [5]\n" {
		t.Errorf("the ANA log is\n%s", got)
	}

	e = a.event()
	f.must(f.sub.SuspendNamespace(5))
	a.wantChanged(e, 5)
	a.wantEvent(a.event(), capsule.NoticeANAChange, capsule.LogANA)
	a.sees(1, 5)
	a.wantAway(5)
	if _, err := f.sub.AddNamespace(NamespaceConfig{NSID: 6, UUID: id, Store: cfg.Store}); err == nil {
		t.Error("another namespace takes its identifiers")
	}
	_, err = f.sub.AddNamespace(cfg)
	f.must(err)
	a.io.wantOK(readOf(5))

	f.must(f.sub.SuspendNamespace(5))
	f.must(f.sub.RemoveNamespace(5))
	a.sees(1)
	a.io.wantStatus(capsule.StatusInvalidNamespace|dnr, readOf(5))
	if f.sub.RemoveNamespace(5) == nil || f.sub.SuspendNamespace(5) == nil || f.sub.AwaitNamespace(NamespaceConfig{}) == nil ||
		f.sub.AwaitNamespace(NamespaceConfig{NSID: 1}) == nil {
		t.Error("what is not there is removed, or what is there announced")
	}
	f.must(f.sub.AwaitNamespace(cfg)) // the target closes with one that is away
}

// TestReservationOfWhatReturns: hosts are not notified when a namespace is closed and opened again with other
// parameters. So its reservation stays, whether it was saved before, is saved elsewhere now, or another one had
// been saved there.
func TestReservationOfWhatReturns(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) ReservationStore { return ReservationFile(filepath.Join(dir, name)) }
	f, id := newFixture(t), uuid.New()
	cfg := NamespaceConfig{NSID: 2, Store: newFakeStore(1 << 20), UUID: id}
	open := func(r ReservationStore) {
		t.Helper()
		cfg.Reservations = r
		_, err := f.sub.AddNamespace(cfg)
		f.must(err)
	}
	open(nil)
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	returns := func(r ReservationStore) {
		t.Helper()
		f.must(f.sub.SuspendNamespace(2))
		f.must(f.sub.AwaitNamespace(cfg)) // it takes longer than expected
		open(r)
		a.wantAccess(2, true, true)
		b.wantAccess(2, false, false)
	}
	wantPersist := func(want uint8) {
		t.Helper()
		if head, all := a.report(2); head.Persist != want || len(all) != 1 || all[0].Key != a.key {
			t.Errorf("persist %d, want %d; registrants %+v", head.Persist, want, all)
		}
	}
	a.register(capsule.StatusSuccess, 2)
	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	returns(nil)
	returns(file("one"))
	wantPersist(0)
	a.setFeature(capsule.StatusSuccess, capsule.FeatureReservationPersist, 2, 1)
	returns(file("two"))
	returns(nil)
	wantPersist(0) // it could not be set
	a.release(capsule.StatusSuccess, 2, exclusiveAccess)
	f.must(f.sub.SuspendNamespace(2))
	open(file("two"))
	b.wantAccess(2, true, true) // not what was saved there before

	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	a.setFeature(capsule.StatusSuccess, capsule.FeatureReservationPersist, 2, 1)
	returns(file("three"))
	wantPersist(1)
	f.must(f.sub.SuspendNamespace(2))
	if _, err := f.sub.AddNamespace(NamespaceConfig{NSID: 2, Store: cfg.Store, Reservations: unsavable{}, UUID: id}); err == nil {
		t.Error("the namespace is back, and its reservation is not saved")
	}
	cfg.UUID = uuid.UUID{1}
	open(nil) // another namespace
	f.tenant("c", f.sub, 0).wantAccess(2, true, true)
	f.must(f.sub.RemoveNamespace(2))

	cfg.UUID = id
	open(file("three")) // like after a restart
	f.tenant("d", f.sub, 0).wantAccess(2, false, false)
}

// TestReservationOfWhatIsTakenBack: a change that removes a namespace, fails and is undone leaves its reservation;
// one that succeeds does not.
func TestReservationOfWhatIsTakenBack(t *testing.T) {
	f := newFixture(t)
	cfg := NamespaceConfig{NSID: 2, Store: newFakeStore(1 << 20), UUID: uuid.New()}
	add := func(c NamespaceConfig) {
		t.Helper()
		_, err := f.sub.AddNamespace(c)
		f.must(err)
	}
	change := func(back bool) {
		t.Helper()
		f.must(f.target.Change(func() error {
			f.must(f.sub.RemoveNamespace(2))
			add(NamespaceConfig{NSID: 2, Store: newFakeStore(1 << 20), UUID: uuid.New()})
			f.must(f.sub.RemoveNamespace(2))
			if back {
				add(cfg)
			}
			return nil
		}))
	}
	add(cfg)
	a := f.tenant("a", f.sub, 0)
	a.register(capsule.StatusSuccess, 2)
	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	change(true)
	f.tenant("b", f.sub, 1).wantAccess(2, false, false)
	change(false)
	add(cfg)
	f.tenant("c", f.sub, 0).wantAccess(2, true, true)
}

// unsavable is a store of reservations whose disk is full.
type unsavable struct{}

func (unsavable) Load() ([]byte, error) { return nil, nil }
func (unsavable) Save([]byte) error     { return syscall.ENOSPC }
