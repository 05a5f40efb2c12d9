package target

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TestKeepAliveExpires is row 68.
func TestKeepAliveExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		h, id := f.connectAdmin(5000)
		io := f.connectIO(id, 1, 1)
		start := time.Now()
		<-h.closed
		<-io.closed
		if d := time.Since(start); d < 7500*time.Millisecond || d > 13*time.Second {
			t.Errorf("association ended after %v, want KATO and a half to KATO more", d)
		}
		if f.logs.FilterMessage("keep alive timeout expired, connection dropped").Len() != 1 {
			t.Error("no log line about it")
		}
		d := connectData() // row 40: an I/O queue for the expired controller
		d.CNTLID = id
		f.dial(1, 1, 128).wantStatus(capsule.StatusConnectInvalidParam, connectCommand(capsule.Connect{QID: 1, SQSIZE: 127}, d))
		f.close2(t)
	})
}

// close2 closes the fixture inside a bubble, before its cleanup closes it again.
func (f *fixture) close2(t *testing.T) {
	if err := f.target.Close(); err != nil {
		t.Error(err)
	}
}

func TestKeepAliveIsHeld(t *testing.T) {
	for name, touch := range map[string]func(admin, io *hostQueue){
		"by Keep Alive": func(admin, _ *hostQueue) { admin.wantOK(adminCommand(capsule.AdminKeepAlive, nil, nil)) },
		"by I/O": func(_, io *hostQueue) {
			io.wantOK(ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				h, id := f.connectAdmin(2000)
				io := f.connectIO(id, 1, 1)
				for range 20 {
					time.Sleep(1900 * time.Millisecond)
					touch(h, io)
				}
				select {
				case <-h.closed:
					t.Error("association ended though the host was there")
				default:
				}
				f.close2(t)
			})
		})
	}
}

// TestKeepAliveGrace: a host whose Keep Alive arrives a whole KATO after its last command, and a little late, does
// not expire, however the two timers are aligned.
func TestKeepAliveGrace(t *testing.T) {
	for phase := range 10 {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			h, id := f.connectAdmin(2000)
			io := f.connectIO(id, 1, 1)
			time.Sleep(time.Duration(phase) * 200 * time.Millisecond)
			for range 3 {
				io.wantOK(ioCommand(capsule.IORead, 1, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
				time.Sleep(2900 * time.Millisecond)
				h.wantOK(adminCommand(capsule.AdminKeepAlive, nil, nil))
			}
			f.close2(t)
		})
	}
}

func TestSilentConnectionIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		h := f.dial(0, 0, 32)
		talking, _ := f.connectAdmin(0)
		start := time.Now()
		<-h.closed
		if d := time.Since(start); d < f.target.cfg.ConnectTimeout || d > f.target.cfg.ConnectTimeout+time.Second {
			t.Errorf("dropped after %v", d)
		}
		talking.property(capsule.PropertyCAP)
		if n := f.target.waiting.count(); n != 0 {
			t.Errorf("%d connections count as silent", n)
		}
		f.close2(t)
	})
}

// TestReset is row 70.
func TestReset(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	h, id := f.connectAdmin(0)
	a, b := f.connectIO(id, 1, 0), f.connectIO(id, 2, 1)
	aer := adminCommand(capsule.AdminAsyncEvent, nil, nil)
	h.start(aer).wantPending()
	s.set(true, nil)
	var cs []*hostCommand
	for i := range 64 {
		for _, q := range []*hostQueue{a, b} {
			cs = append(cs, q.start(ioCommand(capsule.IORead, 2, capsule.ReadWrite{SLBA: capsule.LBA(i), Blocks: 1}, make([]byte, 512))))
		}
	}
	h.setCC(linuxCC)
	if st := h.property(capsule.PropertyCSTS); st != 0 {
		t.Errorf("CSTS %#x after reset", st)
	}
	if r := <-aer.response; r.status != capsule.StatusAbortRequested|dnr {
		t.Errorf("held event request: %v", r.status)
	}
	h.wantStatus(capsule.StatusCommandSequence|dnr, adminCommand(capsule.AdminAsyncEvent, nil, nil))
	s.set(false, nil)
	<-a.closed
	<-b.closed
	for _, c := range cs {
		if c.answers != 1 {
			t.Fatalf("command answered %d times", c.answers)
		}
	}
	h.setCC(linuxCC.WithEnable(true))
	f.connectIO(id, 1, 1).wantOK(ioCommand(capsule.IORead, 2, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
}

// TestShutdownFlushes is row 70 for CC.SHN, normal and abrupt.
func TestShutdownFlushes(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	h, id := f.connectAdmin(0)
	io := f.connectIO(id, 1, 1)
	s.set(true, nil)
	write := io.start(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
	write.wantPending()
	for s.inFlight() == 0 { // wait for another shard's turn
		io.turns(1)
	}
	h.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownNormal))
	status := func() capsule.ShutdownStatus {
		t.Helper()
		return capsule.CSTS(h.property(capsule.PropertyCSTS)).Shutdown()
	}
	if got := status(); got != capsule.ShutdownOccurring {
		t.Errorf("SHST %d while a write is in flight", got)
	}
	h.turns(5)
	if n := s.inFlight(); n != 1 {
		t.Errorf("%d operations at the store, want the write alone: a flush covers only what is done", n)
	}
	s.set(false, nil)
	<-io.closed
	for status() != capsule.ShutdownComplete {
		h.turns(1)
	}
	ops := s.ops()
	if last := ops[len(ops)-1]; len(ops) != 2 || last.Op != 2 {
		t.Errorf("operations %+v, want the write, then a flush", ops)
	}
	h.setCC(0)
	h.setCC(linuxCC.WithEnable(true))
	if got := capsule.CSTS(h.property(capsule.PropertyCSTS)); !got.Ready() || got.Shutdown() != 0 {
		t.Errorf("CSTS %#x after shutdown, reset and enable", got)
	}
	h.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownAbrupt))
	if status() != capsule.ShutdownComplete {
		t.Error("abrupt shutdown is not complete at once")
	}
}

// TestShutdownWhileStoreHangs is row 82: a store that hangs while a host shuts its controller down does not delay
// the flush of other stores.
func TestShutdownWhileStoreHangs(t *testing.T) {
	f := newFixture(t)
	hung := newFakeStore(1 << 20)
	f.export(hung)
	var others []*fakeStore
	for range flushes + 2 {
		others = append(others, newFakeStore(1<<20))
		f.export(others[len(others)-1])
	}
	h, id := f.connectAdmin(0)
	io := f.connectIO(id, 1, 1)
	io.wantOK(writeOf(2))
	hung.set(true, nil)
	h.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownNormal))
	<-io.closed
	for i, s := range others {
		begun := false
		f.within(h, fmt.Sprintf("store %d is flushed", i), func() bool {
			begun = begun || len(s.ops()) > 0 // ops returns each operation once
			return begun && s.inFlight() == 0
		})
	}
	status := func() capsule.ShutdownStatus { return capsule.CSTS(h.property(capsule.PropertyCSTS)).Shutdown() }
	if got := status(); got != capsule.ShutdownOccurring {
		t.Errorf("SHST %d while a store is flushed", got)
	}
	hung.set(false, nil)
	for status() != capsule.ShutdownComplete {
		h.turns(1)
	}
}

// TestAssociationEndsWithItsAdminQueue: the controller exists until the last write of its queues has completed
// (section 6.4 of the catalogue).
func TestAssociationEndsWithItsAdminQueue(t *testing.T) {
	f := newFixture(t)
	s := newFakeStore(1 << 20)
	f.export(s)
	h, id := f.connectAdmin(0)
	io := f.connectIO(id, 1, 1)
	s.set(true, nil)
	io.start(ioCommand(capsule.IOWrite, 2, capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
	h.lose()
	io.turns(3)
	if f.sub.controller(id) == nil {
		t.Error("the controller went before its write")
	}
	select {
	case <-io.closed:
		t.Error("the I/O queue went before its write")
	default:
	}
	s.set(false, nil)
	<-io.closed
	if f.sub.controller(id) != nil {
		t.Error("the controller is left")
	}
}

// TestNamespaceChanges is row 76, and the events that report it.
func TestNamespaceChanges(t *testing.T) {
	f := newFixture(t)
	h, io := f.both()
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent, Value: capsule.EventNamespaceAttribute}, nil))
	event := func() *hostCommand { return h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil)) }
	wantEvent := func(c *hostCommand) {
		t.Helper()
		r := <-c.response
		want := capsule.AsyncEvent{Type: capsule.EventTypeNotice, Info: capsule.NoticeNamespaceChanged, LID: capsule.LogChangedNamespaces}
		if !r.status.OK() || capsule.ParseAsyncEvent(uint32(r.result)) != want {
			t.Errorf("event %#x, %v", r.result, r.status)
		}
	}
	aer := event()
	aer.wantPending()
	s := newFakeStore(1 << 20)
	ns := f.export(s)
	wantEvent(aer)
	io.wantOK(ioCommand(capsule.IORead, ns.ID(), capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))

	aer = event()
	s.set(true, nil)
	inFlight := io.start(ioCommand(capsule.IORead, ns.ID(), capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
	inFlight.wantPending()
	removed := make(chan error)
	go func() { removed <- f.sub.RemoveNamespace(ns.ID()) }()
	for f.sub.table().Get(ns.ID()) != nil {
		io.turns(1)
	}
	io.wantStatus(capsule.StatusInvalidNamespace|dnr, ioCommand(capsule.IORead, ns.ID(), capsule.ReadWrite{Blocks: 1}, make([]byte, 512)))
	aer.wantPending() // masked until the list is read
	select {
	case <-removed:
		t.Error("removed with a command in flight")
	default:
	}
	s.set(false, nil)
	if r := <-inFlight.response; !r.status.OK() {
		t.Errorf("command in flight: %v", r.status)
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	list := logInto(h, capsule.LogChangedNamespaces, 4096, 0)
	if capsule.NSIDAt(list, 0) != ns.ID() || capsule.NSIDAt(list, 1) != 0 {
		t.Errorf("changed namespaces % x", list[:12])
	}
	if list := logInto(h, capsule.LogChangedNamespaces, 4096, 0); capsule.NSIDAt(list, 0) != 0 {
		t.Error("the list is not cleared by reading")
	}
	f.export(newFakeStore(1 << 20))
	wantEvent(aer)
}

func TestNamespaceIdentityIsStable(t *testing.T) {
	identity := func(nqn nvmeof.NQN, c NamespaceConfig) [16]byte {
		c.NSID = 1
		return makeNamespace(&Subsystem{target: new(Target), nqn: nqn}, c).UUID()
	}
	a := identity(testSubNQN, NamespaceConfig{Name: "a"})
	if a != identity(testSubNQN, NamespaceConfig{Name: "a"}) {
		t.Error("the same export has another UUID after a restart")
	}
	if a == identity(testSubNQN, NamespaceConfig{Name: "b"}) || a == identity(testSubNQN+"2", NamespaceConfig{Name: "a"}) {
		t.Error("two exports have the same UUID")
	}
}

func TestDisconnectErrorsAreReported(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	h.fail(rdmatransport.ErrDisconnected)
	<-h.closed
	other, _ := f.connectAdmin(0)
	other.lose()
	lost := f.logs.FilterMessage("queue lost")
	if f.logs.FilterMessage("association ended").Len() != 1 || lost.Len() != 1 {
		t.Fatalf("log lines %v", f.logs.All())
	}
	if remedy, _ := lost.All()[0].ContextMap()["remedy"].(string); remedy != "" {
		t.Errorf("what is not known to be the network's doing has the remedy %q", remedy)
	}
	unheard, _ := f.connectAdmin(0)
	unheard.fail(&fabric.TransferError{Op: rdmatransport.OpWrite, Status: rdmatransport.StatusRetryExceeded})
	<-unheard.closed
	lost = f.logs.FilterMessage("queue lost").FilterFieldKey("remedy")
	if remedy, _ := lost.All()[lost.Len()-1].ContextMap()["remedy"].(string); !strings.Contains(remedy, "MTU") {
		t.Errorf("a host that acknowledges nothing has the remedy %q", remedy)
	}
}
