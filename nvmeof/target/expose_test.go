package target

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestExposure is row 43 for a subsystem that is not on the listener, before and after the exposure changes.
func TestExposure(t *testing.T) {
	f := newFixture(t)
	first, second := f.listen("192.0.2.1:4420"), f.listen("192.0.2.1:4421")
	if first.ID() != 1 || second.ID() != 2 {
		t.Fatalf("identifiers %d and %d", first.ID(), second.ID())
	}
	f.sub.SetPorts([]PortID{1})
	f.at = second
	f.refused(capsule.StatusConnectInvalidParam|dnr, dataOf(f.sub.nqn, testHostNQN), "not exposed", "nvmeof subsystem set "+testSubNQN+" --listeners LIST, with the listener of ")
	a := f.associate(testHostNQN, first)
	f.sub.SetPorts([]PortID{2, 9})
	<-a.admin.closed
	<-a.io.closed
	b := f.associate(testHostNQN, second)
	f.sub.SetPorts(nil)
	if f.sub.Ports() != nil {
		t.Error("ports are left")
	}
	f.associate(testHostNQN, first)
	b.io.wantOK(readOf(1))
}

// TestRemoveListener: its connections end, others stay, and its identifier can be reused.
func TestRemoveListener(t *testing.T) {
	f := newFixture(t)
	first, second := f.listen("192.0.2.1:4420"), f.listen("192.0.2.1:4421")
	a, b := f.associate(testHostNQN, first), f.associate(testHostNQN, second)
	f.must(f.target.RemoveListener(1))
	<-a.admin.closed
	<-a.io.closed
	b.io.wantOK(readOf(1))
	if f.target.RemoveListener(1) == nil {
		t.Error("a listener is removed twice")
	}
	if all := f.target.Listeners(); len(all) != 1 || all[0] != second {
		t.Errorf("listeners %v", all)
	}
	if f.logged("listener removed") != 1 {
		t.Error("no line, or more than one")
	}
	if l := f.listen("192.0.2.1:4422"); l.ID() != 1 {
		t.Errorf("the next listener is %d", l.ID())
	}
	if _, err := f.target.first.Listen(ListenerConfig{ID: 2, Addr: netip.MustParseAddrPort("192.0.2.1:4423")}); err == nil {
		t.Error("an identifier that is in use is accepted")
	}
}

// TestRemoveSubsystem: its hosts are disconnected, then its namespaces removed, and its name can be reused.
func TestRemoveSubsystem(t *testing.T) {
	f := newFixture(t)
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2"})
	f.must(err)
	s.AllowHost(testHostNQN)
	store := newFakeStore(1 << 20)
	_, err = s.AddNamespace(NamespaceConfig{Store: store})
	f.must(err)
	first := f.sub
	f.sub = s
	a := f.associate(testHostNQN, f.at)
	f.sub = first
	store.set(true, nil)
	write := a.io.start(writeOf(1))
	f.within(a.io, "the store has the write", func() bool { return store.inFlight() == 1 })
	removed := make(chan error)
	go func() { removed <- f.target.RemoveSubsystem(s.nqn) }()
	<-f.gone(s.nqn)
	f.refused(capsule.StatusConnectInvalidParam|dnr, dataOf(s.nqn, testHostNQN), "no such subsystem")
	select {
	case <-removed:
		t.Error("removed with a write at the store")
	case <-time.After(10 * time.Millisecond):
	}
	store.set(false, nil)
	f.must(<-removed)
	if write.answers != 1 {
		t.Errorf("the write is answered %d times", write.answers)
	}
	if _, err := s.AddNamespace(NamespaceConfig{Store: store}); err == nil {
		t.Error("a namespace is added to a subsystem that was removed")
	}
	if f.target.RemoveSubsystem(s.nqn) == nil {
		t.Error("a subsystem is removed twice")
	}
	_, err = f.target.AddSubsystem(SubsystemConfig{NQN: s.nqn})
	f.must(err)
}

// gone returns a channel that is closed when the subsystem can no longer be found.
func (f *fixture) gone(nqn nvmeof.NQN) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		field := nqnField(nqn)
		for f.target.subsystem(&field) != nil {
			time.Sleep(time.Millisecond)
		}
	}()
	return done
}

// TestAddWhileRemoved: a namespace that is being added when its subsystem is removed, or the target closed, is
// removed too.
func TestAddWhileRemoved(t *testing.T) {
	for name, end := range map[string]func(*fixture, *Subsystem) error{
		"removed": func(f *fixture, s *Subsystem) error { return f.target.RemoveSubsystem(s.nqn) },
		"closed":  func(f *fixture, _ *Subsystem) error { return f.target.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2"})
			f.must(err)
			store := &slowStore{fakeStore: newFakeStore(1 << 20), begun: make(chan struct{}), proceed: make(chan struct{})}
			added, ended := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := s.AddNamespace(NamespaceConfig{Store: store})
				added <- err
			}()
			<-store.begun
			go func() { ended <- end(f, s) }()
			time.Sleep(20 * time.Millisecond) // it does not wait in vain
			close(store.proceed)
			f.must(<-added)
			f.must(<-ended)
			if n := len(s.Namespaces()); n != 0 {
				t.Errorf("%d namespaces are left", n)
			}
			if _, err := s.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20)}); err == nil {
				t.Error("another is added")
			}
		})
	}
}

// A slowStore opens queues only when proceed is closed.
type slowStore struct {
	*fakeStore
	once           sync.Once
	begun, proceed chan struct{}
}

func (s *slowStore) NewQueue(depth int, notify func()) (backend.Queue, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.proceed
	return s.fakeStore.NewQueue(depth, notify)
}

// TestControllerIDs is row 92: identifiers are from the subsystem's range, and unique.
func TestControllerIDs(t *testing.T) {
	f := newFixture(t)
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2", MinController: 100, MaxController: 102})
	f.must(err)
	s.AllowHost(testHostNQN)
	seen := map[capsule.ControllerID]*hostQueue{}
	for range 3 {
		h := f.dial(0, 0, 32)
		r := h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, dataOf(s.nqn, testHostNQN)))
		id := capsule.ParseConnectResponse(r.result).CNTLID
		if id < 100 || id > 102 || seen[id] != nil {
			t.Errorf("identifier %d", id)
		}
		seen[id] = h
	}
	f.refused(capsule.StatusConnectControllerBusy, dataOf(s.nqn, testHostNQN), "in use", "max-controller-id")
	f.must(s.Disconnect(101))
	<-seen[101].closed
	f.within(seen[100], "the identifier is free", func() bool { return s.controller(101) == nil })
	h := f.dial(0, 0, 32)
	if r := h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, dataOf(s.nqn, testHostNQN))); capsule.ParseConnectResponse(r.result).CNTLID != 101 {
		t.Error("the free identifier is not used")
	}
	if s.Disconnect(7) == nil {
		t.Error("a controller that does not exist is disconnected")
	}
	for _, c := range []SubsystemConfig{{MinController: 9, MaxController: 8}, {MaxController: 0xfff0}} {
		c.NQN = testSubNQN + "3"
		if _, err := f.target.AddSubsystem(c); err == nil {
			t.Errorf("range %d to %d is accepted", c.MinController, c.MaxController)
		}
	}
}

// TestDuplicateHosts: a second controller through one listener is refused if the subsystem is configured so, with
// a status that the host retries. Another path is not refused.
func TestDuplicateHosts(t *testing.T) {
	f := newFixture(t)
	first, second := f.listen("192.0.2.1:4420"), f.listen("192.0.2.1:4421")
	f.associate(testHostNQN, first)
	f.associate(testHostNQN, first) // allowed, as Linux does
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2", RefuseDuplicates: true})
	f.must(err)
	f.must(s.SetHost(HostConfig{NQN: testHostNQN}))
	connect := func(at *Listener) *hostQueue {
		t.Helper()
		f.at = at
		h := f.dial(0, 0, 32)
		h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, dataOf(s.nqn, testHostNQN)))
		return h
	}
	h := connect(first)
	f.refused(capsule.StatusConnectControllerBusy, dataOf(s.nqn, testHostNQN), "already", "--refuse-duplicates=false")
	connect(second)
	h.lose()
	connect(first)
}

// TestThousandSubsystems: each with a namespace and a host, in bounded time and memory. A host only sees what it
// may use.
func TestThousandSubsystems(t *testing.T) {
	const n = 1000
	f := newFixture(t)
	f.listen("192.0.2.1:4420")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	for i := range n {
		s, err := f.target.AddSubsystem(SubsystemConfig{NQN: nvmeof.NQN(fmt.Sprintf("nqn.2026-11.io.example:many:%04d", i))})
		f.must(err)
		s.AllowHost(nvmeof.NQN(fmt.Sprintf("nqn.2026-11.io.example:host:%d", i%10)))
		_, err = s.AddNamespace(NamespaceConfig{Store: newNullStore(int64(i+1) << 20)})
		f.must(err)
	}
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (after.HeapAlloc - before.HeapAlloc) / n
	t.Logf("%d subsystems in %v, %d bytes each", n, took, each)
	if took > 20*time.Second || each > 200<<10 {
		t.Errorf("%d subsystems take %v and %d bytes each", n, took, each)
	}
	h := f.connectDiscovery("nqn.2026-11.io.example:host:3")
	began = time.Now()
	es, _ := h.discover()
	if took := time.Since(began); len(es) != 1+n/10 || took > 5*time.Second {
		t.Errorf("%d entries, in %v", len(es), took)
	}
	s := f.target.Subsystems()[n/2]
	_, io := f.both()
	io.wantOK(readOf(1))
	f.must(f.target.RemoveSubsystem(s.nqn))
	if len(f.target.Subsystems()) != n { // and the fixture's
		t.Errorf("%d subsystems", len(f.target.Subsystems()))
	}
}

// TestRDMAProvider: the discovery log reports the protocol of softroce.
func TestRDMAProvider(t *testing.T) {
	for _, c := range []struct {
		attrs rdmatransport.Attrs
		want  uint8
	}{
		{rdmatransport.Attrs{Provider: "softroce", Immediate: true}, capsule.RDMAProviderRoCEv2},
		{rdmatransport.Attrs{Provider: "verbs"}, capsule.RDMAProviderIWARP},
		{rdmatransport.Attrs{Provider: "verbs", Immediate: true}, capsule.RDMAProviderNone},
	} {
		if got := (&Device{attrs: c.attrs}).provider(); got != c.want {
			t.Errorf("%+v: PRTYPE %d, want %d", c.attrs, got, c.want)
		}
	}
}
