package target

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

func protect(nsid capsule.NSID, v uint32) *hostCommand {
	c := adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureNamespaceWriteProtect, Value: v}, nil)
	c.sqe.NSID = nsid
	return c
}

func (h *hostQueue) wantProtection(nsid capsule.NSID, want capsule.WriteProtection) {
	h.t.Helper()
	c := adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: capsule.FeatureNamespaceWriteProtect}, nil)
	c.sqe.NSID = nsid
	if r := h.wantOK(c); capsule.WriteProtection(r.result) != want {
		h.t.Errorf("namespace %d: write protection %d, want %d", nsid, r.result, want)
	}
}

// TestWriteProtection is row 76.
func TestWriteProtection(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	h, io := f.both()
	write := func(nsid capsule.NSID) *hostCommand {
		return ioCommand(capsule.IOWrite, nsid, capsule.ReadWrite{Blocks: 1}, make([]byte, 512))
	}
	h.wantProtection(2, capsule.WriteProtectNone)
	io.wantOK(write(2))
	h.wantOK(protect(2, 1))
	if ops := s.ops(); ops[len(ops)-1].Op != backend.OpFlush {
		t.Errorf("the last operation is %v, want a flush", ops[len(ops)-1].Op)
	}
	h.wantProtection(2, capsule.WriteProtected)
	io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, write(2))
	io.wantOK(write(1))
	io.wantOK(ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
	h.wantOK(protect(2, 0))
	io.wantOK(write(2))

	// Only the end of the target takes the second state back.
	h.wantOK(protect(2, 2))
	h.wantStatus(capsule.StatusFeatureNotChangeable|dnr, protect(2, 0))
	h.wantStatus(capsule.StatusFeatureNotChangeable|dnr, protect(2, 1))
	h.wantProtection(2, capsule.WriteProtectedUntilOff)
	io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, write(2))

	h.wantStatus(invalidField, protect(1, 3))
	h.wantStatus(invalidField, protect(1, 7))
	h.wantStatus(capsule.StatusInvalidNamespace|dnr, protect(3, 1))
	h.wantStatus(capsule.StatusInvalidNamespace|dnr, protect(0, 1))
}

// TestWriteProtectionNeedsAFlush leaves the namespace as it was where the flush fails.
func TestWriteProtectionNeedsAFlush(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	h, _ := f.both()
	s.set(false, errors.New("input/output error"))
	h.wantStatus(capsule.StatusWriteFault, protect(2, 1))
	h.wantProtection(2, capsule.WriteProtectNone)
}

// A failingState is a StateStore that takes its time and then fails, once.
type failingState struct {
	savedState
	fails atomic.Bool
	end   chan struct{}
}

func (s *failingState) Save(b []byte) error {
	if s.fails.Swap(false) {
		<-s.end
		return errors.New("input/output error")
	}
	return s.savedState.Save(b)
}

// TestProtectUnsaved: the log says why a host's command failed that the store of the state could not save, also where
// counters could not be saved before.
func TestProtectUnsaved(t *testing.T) {
	state := &failingState{end: make(chan struct{})}
	close(state.end)
	f, s := living(t, state)
	a := f.tenant("a", s, 0)
	for n := range 2 {
		state.fails.Store(true)
		if n > 0 {
			s.life.mu.Lock()
			s.life.failed = true
			s.life.mu.Unlock()
		}
		a.admin.wantStatus(capsule.StatusInternalError, protect(1, uint32(capsule.WriteProtected)))
		if got := f.logs.FilterMessage("write protection not saved, command failed").Len(); got != n+1 {
			t.Errorf("it is logged %d times, want %d", got, n+1)
		}
	}
	a.admin.wantProtection(1, capsule.WriteProtectNone)
}

// TestProtectTwice: who sets the state that another host is about to set is answered when it is
// durable, and keeps it although the other one's command fails.
func TestProtectTwice(t *testing.T) {
	protectBoth := func(a, b *tenant, underWay func() bool) (first, second *hostCommand) {
		first = a.admin.start(protect(1, uint32(capsule.WriteProtected)))
		for !underWay() {
			a.admin.turns(1)
		}
		second = b.admin.start(protect(1, uint32(capsule.WriteProtected)))
		if b.admin.turns(1); len(second.response) > 0 {
			t.Error("it is answered before it is durable")
		}
		return first, second
	}
	wantProtected := func(b *tenant, second *hostCommand) {
		t.Helper()
		if r := <-second.response; !r.status.OK() {
			t.Errorf("the second: %v", r.status)
		}
		b.admin.wantProtection(1, capsule.WriteProtected)
		b.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(1))
	}

	state := &failingState{end: make(chan struct{})}
	f, s := living(t, state)
	a, b := f.tenant("a", s, 0), f.tenant("b", s, 1)
	state.fails.Store(true)
	first, second := protectBoth(a, b, func() bool { return !state.fails.Load() })
	close(state.end)
	if r := <-first.response; r.status != capsule.StatusInternalError {
		t.Errorf("the first: %v", r.status)
	}
	wantProtected(b, second)
	f.must(f.target.Close())
	f, s = living(t, state)
	f.tenant("a", s, 0).admin.wantProtection(1, capsule.WriteProtected)

	f, s = living(t, nil)
	store := newFakeStore(1 << 20)
	f.must(s.RemoveNamespace(1))
	_, err := s.AddNamespace(NamespaceConfig{NSID: 1, Store: store})
	f.must(err)
	a, b = f.tenant("a", s, 0), f.tenant("b", s, 1)
	store.set(true, nil)
	_, second = protectBoth(a, b, func() bool { return store.inFlight() == 1 })
	a.admin.lose()
	store.set(false, nil)
	wantProtected(b, second)
}

func TestReadOnlyHostDoesNotProtect(t *testing.T) {
	f := newFixture(t)
	f.must(f.sub.SetAccess(testHostNQN, 1, AccessRead))
	h, _ := f.both()
	h.wantStatus(capsule.StatusFeatureNotChangeable|dnr, protect(1, 1))
}
