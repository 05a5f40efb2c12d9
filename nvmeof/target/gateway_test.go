package target

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// withGateway makes a fixture's target one of several.
func withGateway(t *testing.T) (*fixture, *Gateway) {
	g := new(Gateway)
	f := newFixture(t, func(c *Config) { c.Gateway = g })
	g.early = time.Millisecond // limits the delay by a store that hangs in a test
	return f, g
}

const elsewhere, moving = capsule.StatusANAInaccessible, capsule.StatusANATransition

// wantIO checks the status of each command that needs a path.
func (a *association) wantIO(want capsule.Status, id capsule.NSID) {
	a.f.t.Helper()
	for _, c := range []*hostCommand{readOf(id), writeOf(id), ioCommand(capsule.IOFlush, id, nil, nil)} {
		a.io.wantStatus(want, c)
	}
	if want.OK() {
		want = capsule.StatusInvalidOpcode | dnr // there is no keeper of reservations
	}
	a.io.wantStatus(want, reserveCommand(capsule.IOReservationRegister, id, capsule.ReservationCommand{}, 0, 7))
}

// TestGatewayProtectsNothing: hosts cannot protect a namespace, since another gateway would not know its
// protection.
func TestGatewayProtectsNothing(t *testing.T) {
	f, g := withGateway(t)
	f.export(newFakeStore(1 << 20))
	f.must(g.Serve(1, 5))
	a := f.associate(testHostNQN, f.at)
	for op, fields := range map[capsule.AdminOpcode]putter{
		capsule.AdminSetFeatures: capsule.SetFeatures{FID: capsule.FeatureNamespaceWriteProtect, Value: uint32(capsule.WriteProtected)},
		capsule.AdminGetFeatures: capsule.GetFeatures{FID: capsule.FeatureNamespaceWriteProtect},
	} {
		a.admin.wantStatus(capsule.StatusInvalidField|dnr, aboutNamespace(adminCommand(op, fields, nil), 2))
	}
	if b := identifyInto(a.admin, capsule.CNSController, 0); b[531] != 0 {
		t.Errorf("NWPC is %#x", b[531])
	}
	a.io.wantStatus(capsule.StatusSuccess, writeOf(2))
}

// TestGatewayServes: groups that a target does not own are inaccessible through all listeners, an administrator's
// states apply in addition, and hosts are notified.
func TestGatewayServes(t *testing.T) {
	f, g := withGateway(t)
	f.must(f.export(newFakeStore(1 << 20)).SetGroup(2))
	near, far := f.listen("192.0.2.1:4420"), f.listen("192.0.2.1:4421")
	a, b := f.associate(testHostNQN, near), f.associate(testHostNQN, far)
	a.wantIO(elsewhere, 1)
	b.wantIO(elsewhere, 2)
	if id := a.identify(1); id.NSZE != 16<<20>>9 || id.ANAGRPID != 1 {
		t.Errorf("identified as %+v", id)
	}
	ea, eb := a.event(), b.event()
	f.must(far.SetANAState(1, capsule.ANANonOptimized)) // no host sees it
	f.must(g.Serve(1, 5))
	a.wantEvent(ea, capsule.NoticeANAChange, capsule.LogANA)
	b.wantEvent(eb, capsule.NoticeANAChange, capsule.LogANA)
	a.wantIO(capsule.StatusSuccess, 1)
	a.wantIO(elsewhere, 2)
	_, groups := b.readANA(0)
	if got := states(groups); got != "1 non-optimized [1]\n2 inaccessible [2]\n" {
		t.Errorf("log\n%s", got)
	}
	late := f.listen("192.0.2.1:4422") // a listener that is added later has the state too
	if late.ANAState(1) != capsule.ANAOptimized || late.ANAState(2) != capsule.ANAInaccessible {
		t.Error("a later listener has other states")
	}
	f.must(near.SetANAState(1, capsule.ANAPersistentLoss))
	a.wantIO(capsule.StatusANAPersistentLoss, 1)
	if g.Serve(1, 4) == nil || g.Serve(0, 9) == nil || g.Serve(129, 9) == nil {
		t.Error("an epoch that is over, or a group that does not exist, is served")
	}
	if all := g.Owned(); len(all) != 1 || all[0] != (OwnedGroup{1, 5}) {
		t.Errorf("owned are %v", all)
	}
	f.must(g.Stop(1))
	b.wantIO(elsewhere, 1)
	f.must(g.Serve(1, 5))
	if _, err := New(Config{Gateway: g}); err == nil {
		t.Error("two targets have one gateway")
	}
	if new(Gateway).Serve(1, 1) == nil {
		t.Error("a gateway of no target serves")
	}
}

// wantFlushed checks that the store is no longer in use, and that the last operation was a flush.
func (s *fakeStore) wantFlushed(t *testing.T) {
	t.Helper()
	for _, q := range s.queues {
		if !q.closed {
			t.Error("the store is in use")
		}
	}
	ops := s.ops()
	if last := ops[len(ops)-1]; last.Op != backend.OpFlush {
		t.Errorf("the last operation is a %v", last.Op)
	}
}

// TestGatewayDrains: a group is given back when all commands have completed and their data is durable. To hosts
// its namespaces stay the same, and need not be identified again when they are served again.
func TestGatewayDrains(t *testing.T) {
	f, g := withGateway(t)
	f.must(g.Serve(1, 1))
	store := newFakeStore(1 << 20)
	cfg := NamespaceConfig{NSID: 2, UUID: uuid.New(), Store: store, Name: "disk"}
	_, err := f.sub.AddNamespace(cfg)
	f.must(err)
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	before := a.identify(2)
	store.set(true, nil)
	write := a.io.start(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 1}, bytes.Repeat([]byte{7}, 512)))
	f.within(a.io, "the store has it", func() bool { return store.inFlight() == 1 })
	e, drained := a.event(), make(chan error, 1)
	go func() { drained <- g.Drain(t.Context(), 1) }()
	a.wantEvent(e, capsule.NoticeANAChange, capsule.LogANA)
	a.wantIO(moving, 2)
	a.wantIO(moving, 1)
	if g.Drain(t.Context(), 1) == nil || g.Serve(1, 2) == nil {
		t.Error("a group that is being drained is drained, or served")
	}
	e = a.event()
	store.set(false, nil)
	if r := <-write.response; !r.status.OK() {
		t.Errorf("the write that had begun: %v", r.status)
	}
	f.must(<-drained)
	a.wantEvent(e, capsule.NoticeANAChange, capsule.LogANA)
	store.wantFlushed(t)
	a.sees(1, 2)
	a.wantIO(elsewhere, 1)
	a.wantIO(elsewhere, 2)
	after := a.identify(2)
	after.NUSE, after.NVMCAP = before.NUSE, before.NVMCAP // see NVM command set 1.0, 4.1.5.1
	if after != before {
		t.Errorf("identified as %+v, before as %+v", after, before)
	}
	if len(f.sub.Namespaces()) != 0 {
		t.Error("an administrator finds namespaces that are elsewhere")
	}
	e = a.event()
	_, err = f.sub.AddNamespace(cfg)
	f.must(err)
	e.wantPending()
	f.must(g.Serve(1, 2))
	a.wantEvent(e, capsule.NoticeANAChange, capsule.LogANA) // and no other event
	read := readOf(2)
	if a.io.wantOK(read); read.memory[0] != 7 {
		t.Error("what was written is not there")
	}
	a.io.wantStatus(elsewhere, readOf(1)) // its store was not opened
	if _, groups := a.readANA(0); states(groups) != "1 optimized [2]\n129 inaccessible [1]\n" {
		t.Errorf("log\n%s", states(groups))
	}
}

// TestGatewayDrainsRemoved: when a group is drained and one of its namespaces is removed at the same time, both
// end when the last command has.
func TestGatewayDrainsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := withGateway(t)
		f.must(g.Serve(1, 1))
		store := newFakeStore(1 << 20)
		f.export(store)
		a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
		store.set(true, nil)
		a.io.start(writeOf(2))
		f.within(a.io, "the store has it", func() bool { return store.inFlight() == 1 })
		ends := make(chan error, 2)
		for _, end := range []func() error{
			func() error { return g.Drain(t.Context(), 1) },
			func() error { return f.sub.RemoveNamespace(2) },
		} {
			go func() { ends <- end() }()
			time.Sleep(2 * g.early) // the first flush is abandoned
			synctest.Wait()         // it waits for the write
		}
		store.set(false, nil)
		for range 2 {
			select {
			case err := <-ends:
				f.must(err)
			case <-time.After(time.Minute):
				t.Fatal("the write has ended, and somebody still waits for it")
			}
		}
		f.close2(t)
	})
}

// TestGatewayDrainsWithoutDevice: data that no device is left to flush is not reported as flushed.
func TestGatewayDrainsWithoutDevice(t *testing.T) {
	f, g := withGateway(t)
	f.must(g.Serve(1, 1))
	f.export(newFakeStore(1 << 20))
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	a.io.wantOK(writeOf(2))
	f.must(f.target.first.Remove("test"))
	f.must(g.Drain(t.Context(), 1))
	if !g.lost(1) {
		t.Error("flushed")
	}
}

// TestGatewayDrainHangs: exports that hang are named at the end of the context, and the group can be drained
// again, or released.
func TestGatewayDrainHangs(t *testing.T) {
	f, g := withGateway(t)
	f.must(g.Serve(1, 1))
	store := newFakeStore(1 << 20)
	f.export(store)
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	wantHung := func(err error) {
		t.Helper()
		var hung *DrainError
		if !errors.As(err, &hung) || len(hung.Unfinished) != 1 || hung.Unfinished[0] != "test" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drained with %v", err)
		}
	}
	store.set(true, nil)
	write := a.io.start(writeOf(2))
	f.within(a.io, "the store has it", func() bool { return store.inFlight() == 1 })
	wantHung(g.Drain(soon(), 1))
	a.wantIO(elsewhere, 2)
	store.step()
	if r := <-write.response; !r.status.OK() {
		t.Errorf("the write: %v", r.status)
	}
	wantHung(g.Drain(soon(), 1)) // the flush
	store.set(false, syscall.EIO)
	if err := g.Drain(t.Context(), 1); !errors.Is(err, syscall.EIO) {
		t.Errorf("drained though the flush failed: %v", err)
	}
	f.must(g.Release(t.Context(), 1))
	a.wantIO(elsewhere, 2)
}

// TestGatewayReleaseHangs: when a group that is no longer served is released, each store that completes its
// operations is free, whatever others do, and only those that hang are named.
func TestGatewayReleaseHangs(t *testing.T) {
	t.Parallel()
	f, g := withGateway(t)
	f.must(g.Serve(1, 1))
	writing, asked, free := newFakeStore(1<<20), &muteStore{fakeStore: newFakeStore(1 << 20), answer: make(chan struct{})}, newFakeStore(1<<20)
	for name, s := range map[string]backend.Store{"writing": writing, "asked": asked, "free": free} {
		_, err := f.sub.AddNamespace(NamespaceConfig{Store: s, Name: name})
		f.must(err)
	}
	ids := map[string]capsule.NSID{}
	for _, n := range f.sub.Namespaces() {
		ids[n.name()] = n.ID()
	}
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	writing.set(true, nil)
	a.io.start(writeOf(ids["writing"]))
	f.within(a.io, "the store has it", func() bool { return writing.inFlight() == 1 })
	asked.hangs.Store(true)
	go f.target.Revalidate() // ends when the store answers
	for len(f.target.Unfinished()) < 2 {
		time.Sleep(time.Millisecond)
	}
	f.must(g.Stop(1))
	release := func(want ...string) *DrainError {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		var hung *DrainError
		if err := g.Release(ctx, 1); !errors.As(err, &hung) || !slices.Equal(hung.Unfinished, want) {
			t.Fatalf("released with %v, want %q", err, want)
		}
		return hung
	}
	wantLeaving := func(want ...capsule.NSID) {
		t.Helper()
		if got := g.Leaving(1)[f.sub.NQN()]; !slices.Equal(got, want) {
			t.Errorf("leaving are %v, want %v", got, want)
		}
	}
	if hung := release("asked", "writing"); hung.Ended != nil {
		t.Error("the target is said to have given back what has a command")
	}
	wantLeaving(ids["asked"])
	if len(f.sub.Namespaces()) != 1 || !free.queues[0].closed || writing.queues[0].closed {
		t.Error("what hangs is given back, or what does not is in use")
	}
	writing.set(false, nil)
	hung := release("asked")
	wantLeaving(ids["asked"])
	asked.hangs.Store(false)
	close(asked.answer)
	<-hung.Ended
	wantLeaving()
	f.must(g.Release(t.Context(), 1))
	if !asked.queues[0].closed || !writing.queues[0].closed {
		t.Error("a store is in use")
	}
}

// TestGatewayDrainsBeside: when a group is drained, each store that was flushed is free, whatever others do. The
// group counts as flushed when all of it is.
func TestGatewayDrainsBeside(t *testing.T) {
	f, g := withGateway(t)
	f.must(g.Serve(1, 1))
	writing, unflushed, free := newFakeStore(1<<20), newFakeStore(1<<20), newFakeStore(1<<20)
	durable := newFakeStore(1 << 20)
	durable.info.Volatile = false
	ids := map[string]capsule.NSID{}
	for name, s := range map[string]*fakeStore{"writing": writing, "writing too": writing, "unflushed": unflushed, "free": free, "durable": durable} {
		n, err := f.sub.AddNamespace(NamespaceConfig{Store: s, Name: strings.TrimSuffix(name, " too")})
		f.must(err)
		ids[name] = n.ID()
	}
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	for _, name := range []string{"unflushed", "free", "durable", "writing too"} {
		a.io.wantStatus(capsule.StatusSuccess, writeOf(ids[name]))
	}
	writing.set(true, nil)
	write := a.io.start(writeOf(ids["writing"]))
	f.within(a.io, "the store has it", func() bool { return writing.inFlight() == 1 })
	unflushed.set(true, nil)
	all := func() *hostCommand { return ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil) }
	ctx, cancel := context.WithCancel(t.Context())
	drained := make(chan error)
	go func() { drained <- g.Drain(ctx, 1) }()
	for len(f.sub.Namespaces()) > 3 || len(g.Leaving(1)) > 0 {
		time.Sleep(time.Millisecond)
	}
	free.wantFlushed(t)
	if !durable.queues[0].closed {
		t.Error("what needs no flush is in use")
	}
	a.wantIO(moving, ids["free"])
	a.io.wantStatus(moving, all())
	cancel()
	var hung *DrainError
	err := <-drained
	if !errors.As(err, &hung) || !slices.Equal(hung.Unfinished, []string{"unflushed", "writing"}) || hung.Ended != nil {
		t.Errorf("drained with %v", err)
	}
	if writing.queues[0].closed || unflushed.queues[0].closed {
		t.Error("what is not flushed is given back")
	}
	a.io.wantStatus(elsewhere, all())
	writing.set(false, nil)
	if r := <-write.response; !r.status.OK() {
		t.Errorf("the write that had begun: %v", r.status)
	}
	unflushed.set(false, syscall.EIO)
	if err := g.Drain(t.Context(), 1); !errors.Is(err, syscall.EIO) || unflushed.queues[0].closed {
		t.Errorf("drained with %v", err)
	}
	writing.wantFlushed(t)
	a.io.wantStatus(elsewhere, all())
	unflushed.set(false, nil)
	f.must(g.Drain(t.Context(), 1))
	unflushed.wantFlushed(t)
	a.io.wantOK(all()) // each of them was flushed, by one drain or the other
}

// TestGatewayDrainsCrowded: however many stores hang in their flush, the others are flushed.
func TestGatewayDrainsCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := withGateway(t)
		f.must(g.Serve(1, 1))
		var all []*fakeStore
		for range 2*drainFlushes + 1 {
			s := newFakeStore(1 << 20)
			s.hold = true
			f.export(s)
			all = append(all, s)
		}
		f.listen("192.0.2.1:4420")
		ctx, cancel := context.WithTimeout(t.Context(), 5*slowFlush)
		defer cancel()
		var hung *DrainError
		if err := g.Drain(ctx, 1); !errors.As(err, &hung) {
			t.Errorf("drained with %v", err)
		}
		for _, s := range all {
			if s.inFlight() == 0 {
				t.Error("a store was not asked to flush")
			}
			s.set(false, nil)
		}
		f.must(g.Drain(t.Context(), 1))
		f.close2(t)
	})
}

// A latchedStore has failed permanently.
type latchedStore struct {
	*fakeStore
	why atomic.Pointer[error]
}

func (s *latchedStore) Failed() error {
	if why := s.why.Load(); why != nil {
		return *why
	}
	return nil
}

func (s *latchedStore) Clear() error { s.why.Store(nil); return nil }

// TestGatewayDrainsFailed: a store that has failed before does not keep its group here; one whose flush fails, but
// that continues to work, does.
func TestGatewayDrainsFailed(t *testing.T) {
	f, g := withGateway(t)
	f.must(g.Serve(1, 1))
	store, why := &latchedStore{fakeStore: newFakeStore(1 << 20)}, error(syscall.EIO)
	f.export(store)
	f.listen("192.0.2.1:4420")
	store.set(false, syscall.EIO)
	if err := g.Drain(t.Context(), 1); !errors.Is(err, syscall.EIO) {
		t.Errorf("drained though the flush failed: %v", err)
	}
	store.why.Store(&why)
	f.must(g.Drain(t.Context(), 1))
	store.wantFlushed(t)
}

// TestGatewayLost: a flush of all namespaces fails if a group was given back, or lost, without the flush of what
// hosts had written, for whatever reason.
func TestGatewayLost(t *testing.T) {
	all := func() *hostCommand { return ioCommand(capsule.IOFlush, capsule.NSIDBroadcast, nil, nil) }
	why := error(syscall.EIO)
	for name, give := range map[string]func(*fixture, *Gateway, *latchedStore){
		"stopped": func(f *fixture, g *Gateway, _ *latchedStore) { f.must(g.Stop(1)) },
		"not flushed": func(f *fixture, g *Gateway, s *latchedStore) {
			s.set(false, syscall.EIO)
			if err := g.Drain(f.t.Context(), 1); !errors.Is(err, syscall.EIO) {
				f.t.Errorf("drained though the flush failed: %v", err)
			}
			f.must(g.Stop(1))
		},
		"fenced meanwhile": func(f *fixture, g *Gateway, s *latchedStore) {
			s.set(true, nil)
			ctx, cancel := context.WithCancel(f.t.Context())
			drained := make(chan error)
			go func() { drained <- g.Drain(ctx, 1) }()
			for g.Serves(1) {
				time.Sleep(time.Millisecond)
			}
			g.Fence("a test")
			cancel()
			if <-drained == nil {
				f.t.Error("drained without a flush")
			}
			s.set(false, syscall.EIO)
		},
		"failed for good": func(f *fixture, g *Gateway, s *latchedStore) {
			s.set(false, syscall.EIO)
			s.why.Store(&why)
			f.must(g.Drain(f.t.Context(), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, g := withGateway(t)
			f.must(g.Serve(1, 1))
			store := &latchedStore{fakeStore: newFakeStore(1 << 20)}
			f.export(store)
			a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
			a.io.wantStatus(capsule.StatusSuccess, writeOf(2))
			give(f, g, store)
			f.must(g.Release(t.Context(), 1))
			a.io.wantStatus(elsewhere, all())
		})
	}
}

// TestGatewayFenced: after Fence nothing is executed, and errors of a store for the commands that it has are not
// reported as media errors.
func TestGatewayFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := withGateway(t)
		f.must(g.Serve(1, 1))
		failing, hanging := newFakeStore(1<<20), newFakeStore(1<<20)
		first := f.export(failing)
		f.export(hanging)
		l := f.listen("192.0.2.1:4420")
		a, b := f.associate(testHostNQN, l), f.associate(testHostNQN, l)
		failing.set(true, nil)
		hanging.set(true, nil)
		fails, hangs := a.io.start(writeOf(2)), b.io.start(writeOf(3))
		fetches := writeOf(2)
		fetches.holdFetch = true
		a.io.start(fetches)
		f.within(a.io, "the stores have them", func() bool { return failing.inFlight()+hanging.inFlight() == 2 && fetches.fetching })
		g.Fence("a test")
		a.wantIO(elsewhere, 1)
		a.wantIO(elsewhere, 2)
		failing.set(false, syscall.ESHUTDOWN)
		if r := <-fails.response; r.status != elsewhere {
			t.Errorf("what the fenced store refuses is %v to the host", r.status)
		}
		if why := first.Trouble(); why != "" {
			t.Errorf("the store counts as failed: %s", why)
		}
		f.must(f.target.Change(func() error { return nil }))
		if g.Serve(1, 2) == nil || g.Fenced() != "a test" {
			t.Error("a target that is fenced serves")
		}
		time.Sleep(2 * abortGroupsTime)
		hanging.set(false, nil)
		<-b.io.closed // so that the host continues through another path
		if hangs.answers > 0 && len(hangs.response) > 0 {
			t.Errorf("what hung is answered: %v", (<-hangs.response).status)
		}
		<-a.io.closed // likewise, since it has not delivered its data
		f.must(g.Release(t.Context(), 1))
		g.Rejoin()
		f.must(g.Serve(1, 2))
		if _, err := f.sub.AddNamespace(NamespaceConfig{NSID: 2, Store: newFakeStore(1 << 20), UUID: first.UUID()}); err != nil {
			t.Error(err)
		}
		f.associate(testHostNQN, l).io.wantOK(readOf(2))
		f.close2(t)
	})
}
