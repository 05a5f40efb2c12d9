package target

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestExpel: when it returns, a host whose right was withdrawn has no command under way in the namespace, whatever
// its commands waited for. The host continues with other namespaces.
func TestExpel(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.BackendDepth = 2 })
	s := newFakeStore(4 << 20)
	f.export(s)
	a, b := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1)
	host := b.admin.q.controller.hostNQN
	if err := Expel(f.sub, host, 2, time.Second); !errors.As(err, new(*StateError)) {
		t.Errorf("a host that may use the namespace: %v", err)
	}
	s.set(true, nil)
	write := func(nsid capsule.NSID, held bool) *hostCommand {
		c := ioCommand(capsule.IOWrite, nsid, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096))
		c.holdFetch = held
		return c
	}
	fetching, elsewhere := b.io.start(write(2, true)), b.io.start(write(1, true))
	var theirs []*hostCommand
	for range 5 { // two of them at the store
		theirs = append(theirs, b.io.start(write(2, false)))
	}
	b.io.turns(3)
	if err := f.sub.SetAccess(host, 2, AccessNone); err != nil {
		t.Fatal(err)
	}
	expelled := make(chan error, 1)
	go func() { expelled <- Expel(f.sub, host, 2, time.Minute) }()
	for i, c := range theirs[2:] {
		if r := <-c.response; r.status != capsule.StatusAccessDenied|dnr {
			t.Errorf("write %d, which the store did not have: %v", i+2, r.status)
		}
	}
	b.io.call(func() { b.io.q.requests[fetching.index].ready() })
	if r := <-fetching.response; r.status != capsule.StatusAccessDenied|dnr {
		t.Errorf("the write whose data came late: %v", r.status)
	}
	if err := Expel(f.sub, host, 2, 10*time.Millisecond); !errors.Is(err, errUnfinished) {
		t.Errorf("with a store that has commands: %v", err)
	}
	select {
	case err := <-expelled:
		t.Errorf("the store has two writes, and Expel returns %v", err)
	default:
	}
	s.set(false, nil)
	for i, c := range theirs[:2] {
		if r := <-c.response; r.status != capsule.StatusAccessDenied|dnr {
			t.Errorf("write %d, which the store had: %v", i, r.status)
		}
	}
	if err := <-expelled; err != nil {
		t.Fatal(err)
	}
	b.io.wantStatus(capsule.StatusInvalidNamespace|dnr, write(2, false))
	b.io.call(func() { b.io.q.requests[elsewhere.index].ready() })
	if r := <-elsewhere.response; !r.status.OK() {
		t.Errorf("a write to another namespace: %v", r.status)
	}
	a.io.wantOK(write(2, false))
	f.wantNothingHeld(b.io)
}

// TestExpelRemoved: for a host that was removed, whose connections end with that, Expel also waits for operations
// that the store had before. A host that does not deliver its data loses the queue.
func TestExpelRemoved(t *testing.T) {
	f := newFixture(t)
	f.target.fetchTimeout = 20 * time.Millisecond
	s := newFakeStore(4 << 20)
	f.export(s)
	b := f.tenant("b", f.sub, 1)
	host := b.admin.q.controller.hostNQN
	rw := capsule.ReadWrite{Blocks: 8}
	stalled := ioCommand(capsule.IOWrite, 2, rw, make([]byte, 4096))
	stalled.holdFetch = true
	b.io.start(stalled)
	stalled.wantPending()
	if err := f.sub.SetAccess(host, 2, AccessNone); err != nil {
		t.Fatal(err)
	}
	if err := Expel(f.sub, host, 2, time.Minute); err != nil {
		t.Error(err)
	}
	<-b.io.closed

	c := f.tenant("c", f.sub, 1)
	host = c.admin.q.controller.hostNQN
	s.set(true, nil)
	c.io.start(ioCommand(capsule.IOWrite, 2, rw, make([]byte, 4096)))
	c.io.turns(3)
	f.sub.RemoveHost(host)
	if err := Expel(f.sub, host, 2, 10*time.Millisecond); !errors.Is(err, errUnfinished) {
		t.Errorf("with a store that has a command: %v", err)
	}
	s.set(false, nil)
	if err := Expel(f.sub, host, 2, time.Minute); err != nil {
		t.Error(err)
	}
}

// TestExpelDenied: it ends exactly the commands of hosts that have lost a namespace, or all.
func TestExpelDenied(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(4 << 20)
	f.export(s)
	a, b, c := f.tenant("a", f.sub, 0), f.tenant("b", f.sub, 1), f.tenant("c", f.sub, 1)
	write := func(nsid capsule.NSID) *hostCommand {
		return ioCommand(capsule.IOWrite, nsid, capsule.ReadWrite{Blocks: 8}, make([]byte, 4096))
	}
	if err := ExpelDenied(f.sub, 0, time.Minute); err != nil {
		t.Error(err)
	}
	s.set(true, nil)
	kept, denied := a.io.start(write(2)), b.io.start(write(2))
	c.io.start(write(2)) // its queue ends
	for _, x := range []*tenant{a, b, c} {
		x.io.turns(3)
	}
	if err := f.sub.SetAccess(b.admin.q.controller.hostNQN, 2, AccessNone); err != nil {
		t.Fatal(err)
	}
	f.sub.RemoveHost(c.admin.q.controller.hostNQN)
	if err := ExpelDenied(f.sub, 0, 10*time.Millisecond); !errors.Is(err, errUnfinished) {
		t.Errorf("with a store that has commands: %v", err)
	}
	if err := ExpelDeniedBut(f.sub, []capsule.NSID{1}, 10*time.Millisecond); !errors.Is(err, errUnfinished) {
		t.Errorf("but in another namespace: %v", err)
	}
	if err := ExpelDeniedBut(f.sub, []capsule.NSID{2}, time.Minute); err != nil {
		t.Errorf("but in that namespace: %v", err)
	}
	kept.wantPending()
	s.set(false, nil)
	if err := ExpelDenied(f.sub, 0, time.Minute); err != nil {
		t.Error(err)
	}
	if r := <-kept.response; !r.status.OK() {
		t.Errorf("the host that may: %v", r.status)
	}
	if r := <-denied.response; r.status != capsule.StatusAccessDenied|dnr {
		t.Errorf("the host that may not: %v", r.status)
	}
	<-c.io.closed

	s.set(true, nil)
	kept = a.io.start(write(2))
	a.io.turns(3)
	host := a.admin.q.controller.hostNQN
	f.must(f.target.Change(func() error {
		f.sub.RemoveHost(host)
		if err := ExpelDenied(f.sub, 0, 20*time.Millisecond); !errors.As(err, new(*StateError)) {
			t.Errorf("while a change is under way: %v", err)
		}
		f.sub.AllowHost(host)
		return nil
	}))
	s.set(false, nil)
	if r := <-kept.response; !r.status.OK() {
		t.Errorf("the host that a change has let in again: %v", r.status)
	}
}

// TestExpelWhileItGoes: no command begins after Expel has checked, although the connections of a removed host end
// later: with a shard that is busy, or at the end of the change that has removed it.
func TestExpelWhileItGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		s := newFakeStore(4 << 20)
		f.export(s)
		b, c := f.tenant("b", f.sub, 1), f.tenant("c", f.sub, 1)
		for _, h := range []*tenant{b, c} {
			h.io.wantOK(writeOf(1))
			h.io.wantOK(writeOf(2))
		}
		s.set(true, nil)
		busy, expelled := make(chan struct{}), make(chan error)
		b.admin.q.shard.Do(func() { <-busy })
		host := b.admin.q.controller.hostNQN
		f.sub.RemoveHost(host)
		go func() { expelled <- Expel(f.sub, host, 2, time.Minute) }()
		synctest.Wait() // the shard of the I/O queue has done its part
		b.io.start(writeOf(2))
		b.io.turns(3)
		close(busy)
		if err := <-expelled; err == nil && s.inFlight() > 0 {
			t.Error("the store has a write, and Expel succeeds")
		}

		host = c.admin.q.controller.hostNQN
		s.set(false, nil)
		f.must(f.target.Change(func() error {
			f.sub.RemoveHost(host)
			f.must(Expel(f.sub, host, 2, time.Minute))
			c.io.wantStatus(capsule.StatusInvalidNamespace|dnr, writeOf(2))
			c.io.wantOK(writeOf(1))
			f.sub.AllowHost(host)
			return nil
		}))
		c.io.wantOK(writeOf(2))
		f.close2(t)
	})
}
