package target

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/auth"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// posing returns the Connect data of a host with an identifier of its choice.
func posing(sub *Subsystem, nqn string, id capsule.HostID) capsule.ConnectData {
	d := connectData()
	d.SubNQN, d.HostNQN, d.HostID = nqnField(sub.NQN()), nqnField(nqn), id
	return d
}

// wantAnothers checks that a Connect is refused because of its host identifier, with a status that the host
// retries, and a log line that names the owner.
func (f *fixture) wantAnothers(d capsule.ConnectData, owner string) {
	f.t.Helper()
	f.logs.TakeAll()
	h := f.dial(0, 0, 32)
	r := h.wantStatus(capsule.StatusConnectInvalidHost, connectCommand(capsule.Connect{SQSIZE: 31}, d))
	if p := capsule.ParseInvalidParameter(r.result); p != badHostID {
		f.t.Errorf("invalid parameter %+v", p)
	}
	lines := f.logs.FilterMessage("connect refused").All()
	if len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["reason"].(string), owner) {
		f.t.Errorf("logged %v, want one line that names %s", lines, owner)
	}
	h.lose()
}

const nqnA, nqnB = "nqn.2014-08.org.nvmexpress:host:a", "nqn.2014-08.org.nvmexpress:host:b"

// TestIdentifierOfAnother: a host with the identifier of a host that is connected or registered could write in
// spite of the reservation. It cannot connect to any subsystem.
func TestIdentifierOfAnother(t *testing.T) {
	f := newFixture(t)
	other, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":other"})
	f.must(err)
	if _, err = other.AddNamespace(NamespaceConfig{Store: f.store}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Subsystem{f.sub, other} {
		s.AllowHost(nqnB)
	}
	refused := func() {
		t.Helper()
		for _, s := range []*Subsystem{f.sub, other} {
			f.wantAnothers(posing(s, nqnB, capsule.HostID{15: 'a'}), nqnA)
		}
	}
	a := f.tenant("a", f.sub, 0)
	second := f.tenant("a", other, 1) // the owner may use it anywhere
	refused()                         // the owner is connected
	second.io.lose()
	second.admin.lose()
	refused()
	a.register(capsule.StatusSuccess, 1)
	a.acquire(capsule.StatusSuccess, 1, exclusiveAccess)
	a.io.lose()
	a.admin.lose()
	refused() // the owner is registered
	a = f.tenant("a", f.sub, 0)
	a.io.wantOK(reserveCommand(capsule.IOReservationRegister, 1, capsule.ReservationCommand{Action: capsule.UnregisterKey}, a.key, 0))
	a.io.lose()
	a.admin.lose()
	h := f.dial(0, 0, 32)
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, posing(f.sub, nqnB, capsule.HostID{15: 'a'})))
	f.wantAnothers(posing(f.sub, nqnA, capsule.HostID{15: 'a'}), nqnB)
}

// TestIdentifierAfterARestart: registered hosts own their identifiers after a restart, before they have
// reconnected, and when the namespace is added after the impostor has connected.
func TestIdentifierAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	open := func(f *fixture) {
		t.Helper()
		_, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 2, Reservations: ReservationFile(path)})
		f.must(err)
	}
	f := newFixture(t)
	open(f)
	a := f.tenant("a", f.sub, 0)
	a.io.wantOK(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{Persist: capsule.PersistSet}, 0, a.key))
	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	f.must(f.target.Close())

	f = newFixture(t)
	f.must(f.sub.AwaitNamespace(NamespaceConfig{NSID: 2}))
	f.sub.AllowHost(nqnB)
	pose := posing(f.sub, nqnB, a.id)
	admin := f.dial(0, 0, 32)
	r := admin.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, pose))
	admin.setCC(linuxCC)
	admin.setCC(linuxCC.WithEnable(true))
	io, with := f.dial(1, 1, 128), pose
	with.CNTLID = capsule.ParseConnectResponse(r.result).CNTLID
	io.wantOK(connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, with))
	open(f)
	<-admin.closed
	<-io.closed
	f.wantAnothers(pose, nqnA)
	f.tenant("a", f.sub, 0).wantAccess(2, true, true)
}

// TestIdentifiersAndKeys: with keys, an identifier belongs to the host that has authenticated, even while it is
// disconnected; a host that has not authenticated excludes no other.
func TestIdentifiersAndKeys(t *testing.T) {
	k := newKeyed(t)
	key := newKey(t)
	k.must(k.sub.SetHost(HostConfig{NQN: nqnB, DHCHAPKey: key}))
	k.sub.AllowHost(nqnA)
	second := k.dial(0, 0, 32)
	second.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, posing(k.sub, nqnB, testHostID)))
	h, _ := k.admin()
	refused := func() {
		t.Helper()
		k.wantAnothers(posing(k.sub, nqnA, testHostID), testHostNQN)
		k.wantAnothers(posing(k.sub, nqnB, testHostID), testHostNQN)
	}
	refused()

	// It had connected before, but its authentication comes later.
	x := k.exchange(func(c *auth.HostConfig) { c.HostNQN, c.HostKey, c.ControllerKey = nqnB, key, auth.Key{} })
	second.sendAuth(x)
	second.receiveAuth(x)
	second.sendAuth(x)
	second.start(authReceiveCommand(4096))
	<-second.closed
	h.lose()
	refused() // the owner is disconnected
	k.admin()
	k.sub.RemoveHost(testHostNQN) // permanently
	for k.sub.connectedControllers() > 0 {
		k.target.barrier()
	}
	k.dial(0, 0, 32).wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, posing(k.sub, nqnA, testHostID)))
}

// TestProofDisplaces: a host without a key yields to one that has authenticated.
func TestProofDisplaces(t *testing.T) {
	k := newKeyed(t)
	k.sub.AllowHost(nqnA)
	first := k.dial(0, 0, 32)
	first.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, posing(k.sub, nqnA, testHostID)))
	k.admin()
	<-first.closed
	k.wantAnothers(posing(k.sub, nqnA, testHostID), testHostNQN)
}

// TestRegistrationAndKeys: a registration by a host without a key, where any host may connect, does not exclude a
// host that authenticates from other subsystems, but from the volume.
func TestRegistrationAndKeys(t *testing.T) {
	k := newKeyed(t)
	public, err := k.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":public"})
	k.must(err)
	store := newFakeStore(1 << 20)
	_, err = public.AddNamespace(NamespaceConfig{Store: store})
	k.must(err)
	public.AllowAnyHost(true)
	pose := posing(public, nqnA, testHostID)
	admin := k.dial(0, 0, 32)
	r := admin.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, pose))
	admin.setCC(linuxCC)
	admin.setCC(linuxCC.WithEnable(true))
	with := pose
	with.CNTLID = capsule.ParseConnectResponse(r.result).CNTLID
	io := k.dial(1, 1, 128)
	io.wantOK(connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, with))
	io.wantOK(reserveCommand(capsule.IOReservationRegister, 1, capsule.ReservationCommand{}, 0, 7))
	io.lose()
	admin.lose()
	k.sub.AllowHost(nqnB)
	k.wantAnothers(posing(k.sub, nqnB, testHostID), nqnA) // it has no key either
	h, _ := k.admin()
	k.wantAnothers(posing(public, testHostNQN, testHostID), nqnA)
	k.wantAnothers(pose, testHostNQN)
	another := newFakeStore(1 << 20)
	_, err = public.AddNamespace(NamespaceConfig{Store: another})
	k.must(err)
	h.wantOK(identifyCommand(1, capsule.CNSNamespace))
	_, err = k.sub.AddNamespace(NamespaceConfig{Store: store}) // where it would fence the other one, or be fenced
	k.must(err)
	<-h.closed
	again := k.dial(0, 0, 32)
	again.wantStatus(capsule.StatusConnectInvalidHost, connectCommand(capsule.Connect{SQSIZE: 31}, posing(k.sub, testHostNQN, testHostID)))
	again.lose()
}

// TestIdentifierInTheNameOfAnother: if another host, with or without a key, could register with the identifier
// that is in the NQN of a host with a key, before that one has ever connected, it would exclude it permanently.
func TestIdentifierInTheNameOfAnother(t *testing.T) {
	k := newKeyed(t)
	theirs := uuid.MustParse("99999999-8888-7777-6666-555555555555")
	named := nvmeof.UUIDNQN(theirs)
	k.must(k.sub.SetHost(HostConfig{NQN: named, DHCHAPKey: newKey(t)}))
	k.sub.AllowHost(nqnA)
	k.wantAnothers(posing(k.sub, nqnA, capsule.HostID(theirs)), string(named))

	h := k.dial(0, 0, 32)
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, posing(k.sub, testHostNQN, capsule.HostID(theirs))))
	x := k.exchange(func(c *auth.HostConfig) { c.ControllerKey = auth.Key{} })
	h.sendAuth(x)
	h.receiveAuth(x)
	h.sendAuth(x)
	h.start(authReceiveCommand(4096))
	select {
	case <-h.closed:
	case <-time.After(10 * time.Second):
		t.Fatal("the host that uses another one's identifier stays")
	}
	if l := k.logs.FilterMessage("host disconnected").All(); len(l) != 1 || !strings.Contains(fmt.Sprint(l[0].ContextMap()), string(named)) {
		t.Errorf("logged %v", l)
	}
	k.must(k.sub.SetHost(HostConfig{NQN: named})) // without a key, any host can use the name as well
	k.dial(0, 0, 32).wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, posing(k.sub, nqnA, capsule.HostID(theirs))))
}

// TestReadersCannotReserve: a host that may only read cannot exclude writers, but can release what it acquired
// when it could still write.
func TestReadersCannotReserve(t *testing.T) {
	f := newFixture(t)
	path := ReservationFile(filepath.Join(t.TempDir(), "r"))
	_, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 2, Reservations: path})
	f.must(err)
	denied, ok := capsule.StatusAccessDenied|dnr, capsule.StatusSuccess
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	a.register(ok, 2)
	b.register(ok, 2)
	b.acquire(ok, 2, capsule.ReservationWriteExclusiveRegistrantsOnly)
	f.must(f.sub.SetHost(HostConfig{NQN: nqnB, Access: AccessRead}))
	b.register(denied, 2)
	b.io.wantStatus(denied, reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{Action: capsule.ReplaceKey}, b.key, 5))
	b.io.wantStatus(denied, reserveCommand(capsule.IOReservationRegister, 2,
		capsule.ReservationCommand{Action: capsule.UnregisterKey, Persist: capsule.PersistSet}, b.key, 0))
	b.acquire(denied, 2, writeExclusive)
	for _, action := range []uint8{capsule.PreemptReservation, capsule.PreemptAndAbort} {
		b.io.wantStatus(denied, b.preempt(2, action, writeExclusive, a.key))
	}
	b.io.wantStatus(denied, reserveCommand(capsule.IOReservationRelease, 2, capsule.ReservationCommand{Action: capsule.ClearReservation}, b.key, 0))
	b.setFeature(denied, capsule.FeatureReservationPersist, 2, 1)
	if head, all := b.report(2); head.Persist != 0 || len(all) != 2 {
		t.Errorf("report %+v, %+v", head, all)
	}
	if f.logs.FilterMessage("reservation refused").Len() == 0 {
		t.Error("the log has no reason")
	}
	b.release(ok, 2, capsule.ReservationWriteExclusiveRegistrantsOnly)
	b.io.wantOK(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{Action: capsule.UnregisterKey}, b.key, 0))
	a.acquire(ok, 2, writeExclusive)
	b.io.wantOK(readOf(2))
}

// TestSecondIdentifier: a host that returns after a crash with another identifier is refused with the reason, and
// may retry.
func TestSecondIdentifier(t *testing.T) {
	f := newFixture(t)
	first, id := f.connectAdmin(0)
	d := connectData()
	d.HostID[0] ^= 0xff
	f.logs.TakeAll()
	again := f.dial(0, 0, 32)
	again.wantStatus(capsule.StatusConnectInvalidHost, connectCommand(capsule.Connect{SQSIZE: 31}, d))
	want := fmt.Sprintf("nvmeof controller remove %d -n %s", id, testSubNQN)
	if l := f.logs.FilterMessage("connect refused").All(); len(l) != 1 || !strings.Contains(fmt.Sprint(l[0].ContextMap()), want) {
		t.Errorf("logged %v, want %q", l, want)
	}
	f.must(f.sub.Disconnect(id))
	<-first.closed
	again.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
}

func (s *Subsystem) connectedControllers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.controllers)
}

// watchedReservations calls a function when it begins to save.
type watchedReservations struct {
	*slowReservations
	begin func()
}

func (w *watchedReservations) Save(b []byte) error {
	w.begin()
	return w.slowReservations.Save(b)
}

// TestIdentifierWhileItIsRegistered: a host with the identifier of a host that has disconnected while its
// registration is being saved does not get the identifier, neither then nor afterwards.
func TestIdentifierWhileItIsRegistered(t *testing.T) {
	f := newFixture(t)
	slow := &slowReservations{proceed: make(chan struct{})}
	free := sync.OnceFunc(func() { close(slow.proceed) })
	t.Cleanup(free)
	saving := make(chan struct{})
	_, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 2, Reservations: &watchedReservations{slow, sync.OnceFunc(func() { close(saving) })}})
	f.must(err)
	a := f.tenant("a", f.sub, 0)
	f.sub.AllowHost(nqnB)
	a.io.start(reserveCommand(capsule.IOReservationRegister, 2, capsule.ReservationCommand{Persist: capsule.PersistSet}, 0, a.key))
	<-saving
	a.io.fail(rdmatransport.ErrDisconnected)
	a.admin.fail(rdmatransport.ErrDisconnected)
	a.admin.turns(5)
	for range 100 {
		f.target.barrier()
	}
	f.wantAnothers(posing(f.sub, nqnB, a.id), nqnA)
	free()
	<-a.io.closed
	for f.sub.connectedControllers() > 0 {
		f.target.barrier()
	}
	f.wantAnothers(posing(f.sub, nqnB, a.id), nqnA)
}

// TestIdentifierWhileTheNamespaceIsAway: the same holds while the namespace is away for which the owner, which is
// disconnected too, is registered; the owner is admitted.
func TestIdentifierWhileTheNamespaceIsAway(t *testing.T) {
	f := newFixture(t)
	store := newFakeStore(1 << 20)
	_, err := f.sub.AddNamespace(NamespaceConfig{Store: store, NSID: 2})
	f.must(err)
	f.sub.AllowHost(nqnB)
	a := f.tenant("a", f.sub, 0)
	a.register(capsule.StatusSuccess, 2)
	a.acquire(capsule.StatusSuccess, 2, exclusiveAccess)
	a.io.lose()
	a.admin.lose()
	f.must(f.sub.SuspendNamespace(2))
	f.wantAnothers(posing(f.sub, nqnB, a.id), nqnA)
	a = f.tenant("a", f.sub, 0)
	_, err = f.sub.AddNamespace(NamespaceConfig{Store: store, NSID: 2})
	f.must(err)
	f.wantAnothers(posing(f.sub, nqnB, a.id), nqnA)
}

// TestRegisteredComesBack: a host with a key that uses, in another subsystem, the identifier of a disconnected
// host without a key excludes that from its registration for as long as it is connected itself, and not
// permanently.
func TestRegisteredComesBack(t *testing.T) {
	k := newKeyed(t)
	public, err := k.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":public"})
	k.must(err)
	_, err = public.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20)})
	k.must(err)
	for _, s := range []*Subsystem{public, k.sub} {
		s.AllowHost(nqnA)
		s.AllowHost(nqnB)
	}
	gone := func(s *Subsystem) {
		for s.connectedControllers() > 0 {
			k.target.barrier()
		}
	}
	connect := func(s *Subsystem, nqn string) *hostQueue {
		t.Helper()
		h := k.dial(0, 0, 32)
		h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, posing(s, nqn, testHostID)))
		return h
	}
	d := posing(public, nqnA, testHostID)
	a := k.dial(0, 0, 32)
	r := a.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
	a.setCC(linuxCC)
	a.setCC(linuxCC.WithEnable(true))
	d.CNTLID = capsule.ParseConnectResponse(r.result).CNTLID
	io := k.dial(1, 1, 128)
	io.wantOK(connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
	io.wantOK(reserveCommand(capsule.IOReservationRegister, 1, capsule.ReservationCommand{}, 0, 7))
	io.lose()
	a.lose()
	gone(public)

	h, _ := k.admin()
	k.wantAnothers(posing(public, nqnA, testHostID), testHostNQN) // each would exclude the other
	h.lose()
	gone(k.sub)
	a = connect(public, nqnA)
	second := connect(public, nqnA)
	k.wantAnothers(posing(public, nqnB, testHostID), nqnA)
	k.wantAnothers(posing(k.sub, nqnB, testHostID), nqnA)
	second.lose()
	h, _ = k.admin() // it has authenticated
	<-a.closed
	h.lose()
	gone(k.sub)
	connect(public, nqnA).lose()
	gone(public)
	k.wantAnothers(posing(k.sub, nqnA, testHostID), testHostNQN) // where it is not registered
}
