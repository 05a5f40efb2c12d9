package target

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// resize changes the size that the store reports.
func (s *fakeStore) resize(size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
}

// TestResize is row 76 for sizes: growth and shrinkage are reported, and commands are checked against the new
// size.
func TestResize(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Revalidate = -1 })
	s := newFakeStore(1 << 20)
	ns := f.export(s)
	a := f.associate(testHostNQN, f.at)
	at := func(block uint64) *hostCommand {
		return ioCommand(capsule.IORead, 2, capsule.ReadWrite{SLBA: capsule.LBA(block), Blocks: 1}, make([]byte, 512))
	}
	end := capsule.StatusLBAOutOfRange | dnr
	a.io.wantStatus(end, at(2048))
	e := a.event()
	f.target.Revalidate()
	e.wantPending()
	for _, blocks := range []uint64{4096, 1024} {
		s.resize(int64(blocks) * 512)
		f.target.Revalidate()
		a.wantChanged(e, 2)
		if id := a.identify(2); id.NSZE != blocks || id.NCAP != blocks || id.NVMCAP.Lo != blocks*512 || ns.Info().Size != int64(blocks)*512 {
			t.Errorf("after a change to %d blocks: %+v", blocks, id)
		}
		a.io.wantOK(at(min(blocks, 2048) - 1))
		a.io.wantStatus(end, at(blocks))
		e = a.event()
	}
	if f.logged("namespace resized") != 2 {
		t.Error("not one line for each")
	}
	s.resize(100) // less than a block is no valid size
	f.target.Revalidate()
	if a.identify(2).NSZE != 1024 {
		t.Error("a namespace without blocks")
	}
	if f.logged("namespace became shorter while it is served: the data beyond its end is lost") != 1 || f.logged("size of a namespace is no longer known") != 1 {
		t.Error("that data is lost is not said once each")
	}
}

// TestResizeIsNoticed: a new size is noticed without a call to Revalidate.
func TestResizeIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := newFakeStore(1 << 20)
		ns := f.export(s)
		s.resize(2 << 20)
		time.Sleep(1100 * time.Millisecond)
		if n := ns.ns.Volume.Blocks(); n != 4096 {
			t.Errorf("%d blocks", n)
		}
		f.close2(t)
	})
}

// A refreshedStore updates its size when Refresh is called.
type refreshedStore struct {
	*fakeStore
	next int64
	err  error
}

func (s *refreshedStore) Refresh() (bool, error) {
	if s.err == nil {
		s.resize(s.next)
	}
	return s.err == nil, s.err
}

// TestRefresh: a store that can read its own size does. If that fails, the size stays, with one log line.
func TestRefresh(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Revalidate = -1 })
	s := &refreshedStore{fakeStore: newFakeStore(1 << 20), next: 2 << 20}
	ns := f.export(s)
	f.target.Revalidate()
	s.err, s.next = backend.ErrFailed, 4<<20
	f.target.Revalidate()
	f.target.Revalidate()
	if n := ns.ns.Volume.Blocks(); n != 4096 || f.logged("size of a namespace is no longer known") != 1 {
		t.Errorf("%d blocks, %d lines", n, f.logged("size of a namespace is no longer known"))
	}
}

// TestPause: new commands wait, those under way end first, and all waiting ones continue in order without errors.
func TestPause(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	ns := f.export(s)
	a := f.associate(testHostNQN, f.at)
	s.set(true, nil)
	begun := a.io.start(writeOf(2))
	f.within(a.io, "the store has it", func() bool { return s.inFlight() == 1 })
	paused := make(chan error)
	go func() { paused <- ns.Pause(0) }()
	f.within(a.io, "the gate is shut", func() bool {
		shut := false
		a.io.call(func() { shut = ns.ns.Gate(1).Shut() })
		return shut
	})
	var held []*hostCommand
	for _, c := range []*hostCommand{readOf(2), writeOf(2), ioCommand(capsule.IOFlush, 2, nil, nil),
		ioCommand(capsule.IOWriteZeroes, 2, capsule.ReadWrite{Blocks: 1}, nil),
		ioCommand(capsule.IODatasetManagement, 2, capsule.DatasetManagement{Ranges: 1, Deallocate: true}, make([]byte, 16)),
		ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil),
	} {
		held = append(held, a.io.start(c))
	}
	a.io.wantOK(readOf(1)) // another namespace
	a.io.wantStatus(capsule.StatusInvalidNamespace|dnr, readOf(3))
	s.set(false, nil)
	f.must(<-paused)
	if r := <-begun.response; !r.status.OK() {
		t.Errorf("what had begun: %v", r.status)
	}
	if !ns.Paused() || ns.Pause(0) == nil {
		t.Error("not paused, or twice")
	}
	s.ops()
	for _, c := range held {
		c.wantPending()
	}
	if n := len(s.ops()); n != 0 {
		t.Errorf("%d operations reach a paused store", n)
	}
	f.must(ns.Resume())
	for i, c := range held {
		if r := <-c.response; !r.status.OK() {
			t.Errorf("held command %d: %v", i, r.status)
		}
	}
	if ns.Resume() == nil {
		t.Error("resumed twice")
	}
	f.recorded("paused, for 10s at most", "pause ended")
	f.wantNothingHeld(a.io)
}

// A pause ends by its limit, and with the queue, the namespace or the target.

func TestPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		a := f.associate(testHostNQN, f.at)
		f.must(f.sub.Namespaces()[0].Pause(2 * time.Second))
		began := time.Now()
		a.io.wantOK(writeOf(1))
		if d := time.Since(began); d < 1900*time.Millisecond || d > 2100*time.Millisecond {
			t.Errorf("held for %v", d)
		}
		f.remedied("pause of a namespace ended at its time limit; commands are executed again", "run nvmeof namespace resume 1 -n "+testSubNQN+" before the limit")
		f.recorded("paused, for 2s at most", "pause ended at its time limit")
		f.must(f.sub.Namespaces()[0].Pause(2 * time.Second))
		a.io.start(writeOf(1)).wantPending()
		f.close2(t) // does not wait for the limit
	})
}

func TestPauseOfAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := newFakeStore(1 << 20)
		ns := f.export(s)
		a := f.associate(testHostNQN, f.at)
		s.set(true, nil)
		c := a.io.start(writeOf(2))
		a.io.turns(3)
		if ns.Pause(time.Second) == nil || ns.Paused() {
			t.Error("paused though the store has a write")
		}
		s.set(false, nil)
		if r := <-c.response; !r.status.OK() {
			t.Error(r.status)
		}
		a.io.wantOK(writeOf(2))
		f.close2(t)
	})
}

// TestPauseDelaysNoChange: while a call to Pause waits for a store that hangs, the namespaces of the subsystem can
// be changed, including the one concerned. Resume, and its removal, end the call.
func TestPauseDelaysNoChange(t *testing.T) {
	for name, end := range map[string]func(*fixture, *Namespace) error{
		"resumed": func(_ *fixture, ns *Namespace) error { return ns.Resume() },
		"removed": func(f *fixture, ns *Namespace) error { return f.sub.SuspendNamespace(ns.ID()) },
		"paused again": func(_ *fixture, ns *Namespace) error {
			if err := ns.Resume(); err != nil {
				return err
			}
			go func() { _ = ns.Pause(100 * time.Millisecond) }() // ends by its limit
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := newFakeStore(1 << 20)
			ns := f.export(s)
			a := f.associate(testHostNQN, f.at)
			s.set(true, nil)
			begun := a.io.start(writeOf(2))
			f.within(a.io, "the store has it", func() bool { return s.inFlight() == 1 })
			paused := make(chan error, 1)
			go func() { paused <- ns.Pause(MaxPause) }()
			f.within(a.io, "the gate is shut", func() bool {
				shut := false
				a.io.call(func() { shut = ns.ns.Gate(1).Shut() })
				return shut
			})
			held := a.io.start(writeOf(2))
			began := time.Now()
			if ns.Paused() {
				t.Error("it is paused though the store has a command")
			}
			f.must(ns.SetGroup(2))
			if err := ns.Pause(0); err == nil || !strings.Contains(err.Error(), "it is being paused already") {
				t.Errorf("paused twice: %v", err)
			}
			ended := make(chan error, 1)
			go func() { ended <- end(f, ns) }() // a removal waits for the store
			var state *StateError
			if err := <-paused; !errors.As(err, &state) || !strings.Contains(err.Error(), "it is not paused") {
				t.Errorf("the call that waited: %v", err)
			}
			if took := time.Since(began); took > MaxPause/2 {
				t.Errorf("it took %v", took)
			}
			s.set(false, nil)
			f.must(<-ended)
			if r := <-begun.response; !r.status.OK() {
				t.Errorf("what had begun: %v", r.status)
			}
			if r := <-held.response; r.status.OK() == (name == "removed") {
				t.Errorf("what was held: %v", r.status)
			}
		})
	}
}

func TestQueueEndsInAPause(t *testing.T) {
	f := newFixture(t)
	a := f.associate(testHostNQN, f.at)
	f.must(f.sub.Namespaces()[0].Pause(0))
	c := a.io.start(writeOf(1))
	c.wantPending()
	a.io.lose()
	f.must(f.sub.Namespaces()[0].Resume())
	if c.answers != 1 {
		t.Errorf("answered %d times", c.answers)
	}
}

func TestNamespaceEndsInAPause(t *testing.T) {
	f := newFixture(t)
	ns := f.export(newFakeStore(1 << 20))
	a := f.associate(testHostNQN, f.at)
	f.must(ns.Pause(0))
	c := a.io.start(writeOf(2))
	c.wantPending()
	f.must(f.sub.RemoveNamespace(2))
	if r := <-c.response; r.status != capsule.StatusInvalidNamespace|dnr {
		t.Errorf("held command of a namespace that went: %v", r.status)
	}
	if ns.Resume() == nil || ns.Pause(0) == nil {
		t.Error("a namespace that went is paused")
	}
}

func TestPauseIsJudged(t *testing.T) {
	f := newFixture(t)
	for _, d := range []time.Duration{-1, MaxPause + 1} {
		if f.sub.Namespaces()[0].Pause(d) == nil {
			t.Errorf("%v is accepted", d)
		}
	}
}

// TestSharedStore: a store in two subsystems is opened once, has separate rights in each, and stays open until its
// last namespace was removed.
func TestSharedStore(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	second, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2"})
	f.must(err)
	f.must(second.SetHost(HostConfig{NQN: testHostNQN, Access: AccessRead}))
	f.export(s)
	queues := len(s.queues)
	_, err = second.AddNamespace(NamespaceConfig{Store: s, NSID: 9})
	f.must(err)
	if len(s.queues) != queues || queues != len(f.target.first.workers) {
		t.Errorf("%d queues, after the second namespace %d", queues, len(s.queues))
	}
	first := f.sub
	a := f.associate(testHostNQN, f.at)
	f.sub = second
	b := f.associate(testHostNQN, f.at)
	f.sub = first
	data := make([]byte, 512)
	data[5] = 7
	a.io.wantOK(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 1}, data))
	back := readOf(9)
	b.io.wantOK(back)
	if back.memory[5] != 7 {
		t.Error("the two have other blocks")
	}
	b.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(9))

	s.set(true, nil) // a command of the other namespace does not delay the removal
	c := b.io.start(readOf(9))
	f.within(b.io, "the store has it", func() bool { return s.inFlight() == 1 })
	f.must(f.sub.RemoveNamespace(2))
	if s.queues[0].closed {
		t.Error("closed though the other namespace has it")
	}
	s.set(false, nil)
	if r := <-c.response; !r.status.OK() {
		t.Error(r.status)
	}
	f.must(second.RemoveNamespace(9))
	for _, q := range s.queues {
		if !q.closed {
			t.Error("a queue is left open")
		}
	}
}

// TestNamespaceIdentifiers: configured identifiers are reported, and no two namespaces can have the same.
func TestNamespaceIdentifiers(t *testing.T) {
	f := newFixture(t)
	c := NamespaceConfig{Store: newFakeStore(1 << 20), UUID: uuid.UUID{1}, NGUID: [16]byte{2}, EUI64: [8]byte{3}, Group: 5, ReadOnly: true}
	ns, err := f.sub.AddNamespace(c)
	f.must(err)
	a := f.associate(testHostNQN, f.at)
	id := a.identify(2)
	if id.NGUID != c.NGUID || id.EUI64 != c.EUI64 || id.ANAGRPID != 5 || id.NSATTR == 0 || ns.UUID() != c.UUID || !ns.ReadOnly() {
		t.Errorf("identify namespace %+v", id)
	}
	want := map[capsule.DescriptorType]byte{capsule.DescriptorEUI64: 3, capsule.DescriptorNGUID: 2, capsule.DescriptorUUID: 1, capsule.DescriptorCSI: 0}
	b := identifyInto(a.admin, capsule.CNSDescriptors, 2)
	for range want {
		typ, value, rest, err := capsule.NextDescriptor(b)
		f.must(err)
		if value[0] != want[typ] || len(value) != typ.Length() {
			t.Errorf("descriptor %d: % x", typ, value)
		}
		b = rest
	}
	second, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2"})
	f.must(err)
	for _, clash := range []NamespaceConfig{{UUID: c.UUID}, {NGUID: c.NGUID}, {EUI64: c.EUI64}} {
		clash.Store = newFakeStore(1 << 20)
		if _, err := second.AddNamespace(clash); err == nil {
			t.Errorf("%+v is accepted", clash)
		}
	}
	if _, err := second.AddNamespace(NamespaceConfig{Store: c.Store, Group: 129}); err == nil {
		t.Error("group 129 is accepted")
	}
}

// TestChangesUnderLoad: whatever an administrator changes while two hosts do I/O, every command completes exactly
// once, with success or with the status that the change implies.
func TestChangesUnderLoad(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	l := f.listen("192.0.2.1:4420")
	f.sub.AllowHost(otherHostNQN)
	stop, hosts := make(chan struct{}), make(chan map[capsule.Status]int)
	for _, nqn := range []nvmeof.NQN{testHostNQN, otherHostNQN} {
		a := f.associate(nqn, l)
		go func() {
			seen := map[capsule.Status]int{}
			for {
				select {
				case <-stop:
					hosts <- seen
					return
				default:
				}
				var cs []*hostCommand
				for range 8 {
					cs = append(cs, a.io.start(writeOf(2)), a.io.start(readOf(2)))
				}
				for _, c := range cs {
					seen[(<-c.response).status]++
				}
			}
		}()
	}
	ns := f.sub.Namespaces()[1]
	for i := range 30 {
		f.must(ns.Pause(5 * time.Second))
		f.must(ns.Resume())
		ns.SetReadOnly(i%2 == 0)
		f.must(ns.SetGroup(capsule.ANAGroup(1 + i%5)))
		f.must(l.SetANAState(capsule.ANAGroup(1+i%5), capsule.ANAInaccessible))
		f.must(l.SetANAState(capsule.ANAGroup(1+i%5), capsule.ANAOptimized))
		f.must(f.sub.SetAccess(otherHostNQN, 2, AccessNone))
		f.must(f.sub.SetAccess(otherHostNQN, 2, AccessWrite))
		s.resize(int64(1+i%2) << 19)
		f.target.Revalidate()
		f.must(f.sub.RemoveNamespace(2))
		var err error
		ns, err = f.sub.AddNamespace(NamespaceConfig{Store: s, NSID: 2, Name: "test"}) // the same to hosts
		f.must(err)
	}
	close(stop)
	for range 2 {
		for status, n := range <-hosts {
			switch status.Code() {
			case capsule.StatusSuccess, capsule.StatusInvalidNamespace, capsule.StatusNamespaceWriteProtected, capsule.StatusANAInaccessible:
			case capsule.StatusInternalPathError: // sent before the host has identified the new namespace
			default:
				t.Errorf("%d commands: %v", n, status)
			}
		}
	}
}
