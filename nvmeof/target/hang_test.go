package target

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestStoreHangs is row 82: a store that does not answer delays only the commands that it has. The host gives up
// its queues and reconnects while the store still hangs. Operations that complete late complete no command, and
// all resources are released.
func TestStoreHangs(t *testing.T) {
	for _, hang := range []time.Duration{31 * time.Second, 10 * time.Minute} {
		t.Run(fmt.Sprint(hang), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				s := newFakeStore(1 << 20)
				f.export(s)
				admin, id := f.connectAdmin(5000)
				io := f.connectIO(id, 1, 1)
				s.set(true, nil)
				write := io.start(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 1}, bytes.Repeat([]byte{7}, 512)))
				read := io.start(readOf(2))
				f.within(io, "the store has both", func() bool { return s.inFlight() == 2 })
				wait := func(admin, io *hostQueue, d time.Duration) {
					t.Helper()
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Second) {
						admin.wantOK(adminCommand(capsule.AdminKeepAlive, nil, nil))
						io.wantOK(writeOf(1)) // another namespace
					}
				}
				wait(admin, io, 30*time.Second) // then a host sends Abort, and disconnects
				admin.start(adminCommand(capsule.AdminAbort, capsule.Abort{SQID: 1, CID: write.sqe.CID}, nil))
				io.fail(&rdmaError{})
				admin.fail(&rdmaError{})
				again, newID := f.connectAdmin(5000)
				newIO := f.connectIO(newID, 1, 1)
				wait(again, newIO, hang-30*time.Second)
				if f.sub.controller(id) == nil {
					t.Error("the controller went before its write")
				}
				s.set(false, nil)
				<-io.closed
				<-admin.closed
				if write.answers > 1 || read.answers > 1 {
					t.Errorf("answered %d and %d times", write.answers, read.answers)
				}
				if n := len(f.target.Controllers()); n != 1 {
					t.Errorf("%d controllers, want the new one", n)
				}
				back := readOf(2)
				if newIO.wantOK(back); back.memory[0] != 7 {
					t.Error("the write is not there though its association ended after it")
				}
				f.wantNothingHeld(newIO)
				f.close2(t)
			})
		})
	}
}

// A muteStore is a store whose file system hangs.
type muteStore struct {
	*fakeStore
	hangs  atomic.Bool
	answer chan struct{}
}

func (s *muteStore) wait() {
	if s.hangs.Load() {
		<-s.answer
	}
}

func (s *muteStore) Refresh() (bool, error)    { s.wait(); return false, nil }
func (s *muteStore) Allocated() (int64, error) { s.wait(); return 4096, nil }

// TestStoreDoesNotAnswer: a store whose size and state cannot be read, since its file system hangs, delays no
// shard, and the other stores are examined. Administrators are notified of that, and when it answers again.
func TestStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		mute, other := &muteStore{fakeStore: newFakeStore(1 << 20), answer: make(chan struct{})}, newFakeStore(1<<20)
		ns := f.export(mute)
		f.export(other)
		time.Sleep(2 * time.Second)
		mute.hangs.Store(true)
		time.Sleep(2 * time.Second)
		admin, id := f.connectAdmin(0)
		io := f.connectIO(id, 1, 1)
		identify := func(id capsule.NSID) capsule.IdentifyNamespace {
			n, err := capsule.DecodeIdentifyNamespace(identifyInto(admin, capsule.CNSNamespace, id))
			f.must(err)
			return n
		}
		if n := identify(2); n.NSZE != 2048 || n.NUSE != 8 {
			t.Errorf("%d blocks, %d used", n.NSZE, n.NUSE)
		}
		io.wantOK(writeOf(2))
		if why := ns.Trouble(); why != "" {
			t.Errorf("at once it is trouble: %s", why)
		}
		other.mu.Lock()
		other.size = 2 << 20
		other.mu.Unlock()
		time.Sleep(10 * time.Second)
		if n := identify(3); n.NSZE != 4096 {
			t.Errorf("the other store has %d blocks", n.NSZE)
		}
		if why := ns.Trouble(); !strings.Contains(why, "has not answered since") {
			t.Errorf("trouble %q", why)
		}
		mute.hangs.Store(false)
		close(mute.answer)
		time.Sleep(2 * time.Second)
		if why := ns.Trouble(); why != "" {
			t.Errorf("it answers, and is trouble: %s", why)
		}
		if a, b := f.logged("store does not answer: its commands wait; other stores are not affected"), f.logged("store answers again"); a != 1 || b != 1 {
			t.Errorf("%d and %d lines in the log", a, b)
		}
		f.close2(t)
	})
}

// TestStalledStoreLeavesRoom: a host with the maximum number of commands of every kind at a store that hangs can
// still use its other namespaces. All commands complete when the store continues, whatever they waited for.
func TestStalledStoreLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		hung, other := newFakeStore(1<<20), newFakeStore(1<<20)
		ns := f.export(hung)
		f.export(other)
		_, id := f.connectAdmin(0)
		io := f.connectIO(id, 1, 1)
		hung.set(true, nil)
		const blocks = 128
		var all []*hostCommand
		start := func(c *hostCommand) { all = append(all, io.start(c)) }
		for i := range 20 {
			op := []capsule.IOOpcode{capsule.IOWrite, capsule.IORead, capsule.IOCompare}[i%3]
			start(ioCommand(op, 2, capsule.ReadWrite{Blocks: blocks}, make([]byte, blocks*512)))
			if i == 4 || i == 19 {
				first, second := fusedPair(2, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096), make([]byte, 4096))
				start(first)
				start(second)
			}
		}
		io.turns(10)
		time.Sleep(4 * time.Second)
		big := func(op capsule.IOOpcode, id capsule.NSID) *hostCommand {
			return ioCommand(op, id, capsule.ReadWrite{Blocks: blocks}, make([]byte, blocks*512))
		}
		began := time.Now()
		for range 3 {
			io.wantOK(big(capsule.IOWrite, 3))
			io.wantOK(big(capsule.IORead, 3))
			io.wantOK(big(capsule.IOCompare, 3))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("commands for another namespace took %v", took)
		}
		for _, c := range all {
			c.wantPending()
		}
		time.Sleep(5 * time.Second)
		if why := ns.Trouble(); !strings.Contains(why, "has not answered since") {
			t.Errorf("trouble %q", why)
		}
		hung.set(false, nil)
		for i, c := range all {
			if r := <-c.response; !r.status.OK() {
				t.Errorf("command %d: %v", i, r.status)
			}
		}
		time.Sleep(2 * time.Second)
		if why := ns.Trouble(); why != "" {
			t.Errorf("it answers, and is trouble: %s", why)
		}
		io.wantOK(writeOf(2))
		f.wantNothingHeld(io)
		f.close2(t)
	})
}

// hungReservations are in a file whose reading does not end before answer is closed.
type hungReservations struct {
	answer chan struct{}
	read   atomic.Bool // a read is under way
}

func (r *hungReservations) Load() ([]byte, error) { r.read.Store(true); <-r.answer; return nil, nil }
func (r *hungReservations) Save([]byte) error     { return nil }

// TestReservationsHang: adding a namespace whose reservations are on a file system that hangs delays no other
// namespace: neither the end of a pause, nor the examination of its size.
func TestReservationsHang(t *testing.T) {
	f := newFixture(t)
	other, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":other"})
	f.must(err)
	hung := &hungReservations{answer: make(chan struct{})}
	added := make(chan error, 1)
	go func() { // ends when it answers
		_, err := other.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Reservations: hung})
		added <- err
	}()
	for !hung.read.Load() {
		time.Sleep(time.Millisecond)
	}
	done := make(chan struct{})
	go func() { // soon
		defer close(done)
		ns := f.sub.Namespaces()[0]
		if err := errors.Join(ns.Pause(0), ns.Resume()); err != nil {
			t.Error(err)
		}
		f.target.Revalidate()
		if names := f.target.Unfinished(); len(names) > 0 {
			t.Errorf("%q are unfinished", names)
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Error("it delays what it has nothing to do with")
	}
	close(hung.answer)
	<-done
	f.must(<-added)
}

// addLater adds a namespace, and returns when its reservations are being read.
func (f *fixture) addLater(s *Subsystem, c NamespaceConfig, r *hungReservations) <-chan error {
	added := make(chan error, 1)
	c.Reservations = r
	go func() {
		_, err := s.AddNamespace(c)
		added <- err
	}()
	for !r.read.Load() {
		time.Sleep(time.Millisecond)
	}
	return added
}

// soon fails the test if do waits for what hangs.
func (f *fixture) soon(do func() error) {
	f.t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		f.must(err)
	case <-time.After(20 * time.Second):
		f.t.Fatal("it waits for what hangs")
	}
}

// TestAddingHangs: it does not delay adding or removing a namespace with another store either, even in the same
// subsystem. Changes at its NSID wait; no other namespace gets the NSID, and its store is not opened twice.
func TestAddingHangs(t *testing.T) {
	f := newFixture(t)
	other, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":other"})
	f.must(err)
	hung, store, third := &hungReservations{answer: make(chan struct{})}, newFakeStore(1<<20), newFakeStore(1<<20)
	added := f.addLater(f.sub, NamespaceConfig{NSID: 2, Store: store}, hung)
	joined, behind := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := other.AddNamespace(NamespaceConfig{NSID: 1, Store: store})
		joined <- err
	}()
	go func() { behind <- f.sub.AwaitNamespace(NamespaceConfig{NSID: 2}) }()
	f.soon(func() error {
		n, err := f.sub.AddNamespace(NamespaceConfig{Store: third})
		if err != nil || n.ID() != 3 {
			return fmt.Errorf("the next is %v, %v", n, err)
		}
		_, err = other.AddNamespace(NamespaceConfig{NSID: 2, Store: newFakeStore(1 << 20)})
		return errors.Join(err, n.SetGroup(2), n.Pause(0), n.Resume(), f.sub.RemoveNamespace(3),
			other.AwaitNamespace(NamespaceConfig{NSID: 5}), other.RemoveNamespace(2))
	})
	if len(added)+len(joined)+len(behind) > 0 {
		t.Error("what hangs has ended")
	}
	close(hung.answer)
	f.must(<-added)
	f.must(<-joined)
	if err := <-behind; err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("two namespaces have one NSID: %v", err)
	}
	if len(store.queues) != len(third.queues) {
		t.Error("a store is opened twice")
	}
}

// TestAddingClashes: if two namespaces have the same identity, the second one fails, and its store is free.
func TestAddingClashes(t *testing.T) {
	f := newFixture(t)
	hung, store, id := &hungReservations{answer: make(chan struct{})}, newFakeStore(1<<20), uuid.New()
	added := f.addLater(f.sub, NamespaceConfig{NSID: 2, Store: store, UUID: id}, hung)
	f.soon(func() error {
		_, err := f.sub.AddNamespace(NamespaceConfig{NSID: 3, Store: newFakeStore(1 << 20), UUID: id})
		return err
	})
	close(hung.answer)
	if err := <-added; err == nil || !strings.Contains(err.Error(), "UUID") {
		t.Errorf("two namespaces have one UUID: %v", err)
	}
	if !store.queues[0].closed || len(f.sub.Namespaces()) != 2 {
		t.Error("its store is open, or it is there")
	}
}

// TestAwaitedStateHangs: while the state of a subsystem cannot be read, namespaces that wait for it can be added
// and removed.
func TestAwaitedStateHangs(t *testing.T) {
	f := newFixture(t)
	state := &unreadState{answer: make(chan struct{})}
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":other", State: state, AwaitState: true})
	f.must(err)
	state.hangs.Store(true)
	added := make(chan error, 1)
	go func() { // ends when it answers
		_, err := s.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20)})
		added <- err
	}()
	for s.life.mu.TryLock() {
		s.life.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	f.soon(func() error { return errors.Join(s.AwaitNamespace(NamespaceConfig{NSID: 5}), s.RemoveNamespace(5)) })
	close(state.answer)
	f.must(<-added)
}

// An unreadState cannot be read at first, and then hangs.
type unreadState struct {
	hangs  atomic.Bool
	answer chan struct{}
}

func (s *unreadState) Load() ([]byte, error) {
	if !s.hangs.Load() {
		return nil, syscall.EIO
	}
	<-s.answer
	return nil, nil
}

func (s *unreadState) Save([]byte) error { return nil }
