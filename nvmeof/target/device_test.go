package target

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/fabric"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/rdmatest"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// second adds another device with a listener to the target.
func (f *fixture) second(c ListenerConfig) (*fakeDevice, *Listener) {
	f.t.Helper()
	fake := newFakeDevice()
	d, err := f.target.AddDevice(fake)
	f.must(err)
	c.Addr = netip.MustParseAddrPort("198.51.100.1:4420")
	l, err := d.Listen(c)
	f.must(err)
	return fake, l
}

// TestTwoDevices: hosts reach the same subsystem through two devices.
func TestTwoDevices(t *testing.T) {
	f := newFixture(t)
	f.export(newFakeStore(1 << 20))
	near := f.listen("192.0.2.1:4420")
	_, far := f.second(ListenerConfig{ANA: map[capsule.ANAGroup]capsule.ANAState{1: capsule.ANANonOptimized}})
	a, b := f.associate(testHostNQN, near), f.associate(testHostNQN, far)
	if a.id == b.id {
		t.Errorf("both controllers are %d", a.id)
	}

	// Both are notified when namespaces are added and removed.
	forA, forB := a.event(), b.event()
	third, err := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Group: 1})
	f.must(err)
	a.wantChanged(forA, 3)
	b.wantChanged(forB, 3)
	for _, h := range []*association{a, b} {
		h.io.wantOK(writeOf(3))
		h.sees(1, 2, 3)
	}
	var n health.Counts
	if third.ns.AddTo(&n); n.Writes != 2 {
		t.Errorf("%d writes are counted, want those of both", n.Writes)
	}

	// Each listener has its own ANA states.
	_, groups := b.readANA(0)
	if got := states(groups); got != "1 non-optimized [1 2 3]\n" {
		t.Errorf("ANA log of the second device:\n%s", got)
	}
	f.must(near.SetANAState(1, capsule.ANAInaccessible))
	a.io.wantStatus(capsule.StatusANAInaccessible, readOf(1))
	b.io.wantOK(readOf(1))
	f.must(near.SetANAState(1, capsule.ANAOptimized))
	es, _ := f.connectDiscovery(testHostNQN).discover()
	if got := summary(es); !strings.Contains(got, "192.0.2.1 4420 "+testSubNQN) || !strings.Contains(got, "198.51.100.1 4420 "+testSubNQN) {
		t.Errorf("discovery log:\n%s", got)
	}
}

// TestNamespaceOverDevices: pauses, rights and removal of a namespace apply on all devices.
func TestNamespaceOverDevices(t *testing.T) {
	f := newFixture(t)
	ns := f.export(newFakeStore(1 << 20))
	near := f.listen("192.0.2.1:4420")
	_, far := f.second(ListenerConfig{})
	a, b := f.associate(testHostNQN, near), f.associate(testHostNQN, far)
	f.must(ns.Pause(0))
	waiting := []*hostCommand{a.io.start(writeOf(2)), b.io.start(writeOf(2))}
	for _, c := range waiting {
		c.wantPending()
	}
	f.must(ns.Resume())
	for _, c := range waiting {
		if r := <-c.response; !r.status.OK() {
			t.Errorf("after the pause: %v", r.status)
		}
	}
	a.admin.wantOK(protect(2, 1))
	b.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(2))
	b.admin.wantOK(protect(2, 0))
	a.io.wantOK(writeOf(2))
}

// TestReservationOverDevices: a reservation that was made through one device excludes other hosts on the other
// device, and admits the holder there.
func TestReservationOverDevices(t *testing.T) {
	f := newFixture(t)
	near := f.listen("192.0.2.1:4420")
	_, far := f.second(ListenerConfig{})
	f.at = near
	holder := f.tenant("h", f.sub, 1)
	f.at = far
	again, other := f.tenant("h", f.sub, 1), f.tenant("o", f.sub, 0)
	holder.register(capsule.StatusSuccess, 1)
	holder.acquire(capsule.StatusSuccess, 1, writeExclusive)
	again.wantAccess(1, true, true)
	other.wantAccess(1, true, false)
	other.register(capsule.StatusSuccess, 1)
	if head, all := again.report(1); head.Type != writeExclusive || len(all) != 2 {
		t.Errorf("report %+v of %d", head, len(all))
	}
	other.io.wantOK(other.preempt(1, 1, exclusiveAccess, holder.key))
	holder.wantAccess(1, false, false)
	again.wantAccess(1, false, false)
}

// TestRemoveDevice: its connections end when their commands have, others continue, registrations stay, and another
// device can replace it.
func TestRemoveDevice(t *testing.T) {
	f := newFixture(t)
	store := newFakeStore(1 << 20)
	ns := f.export(store)
	near := f.listen("192.0.2.1:4420")
	fake, far := f.second(ListenerConfig{})
	follower := f.follow(testHostNQN)
	a := f.associate(testHostNQN, near)
	f.at = far
	b := f.tenant("b", f.sub, 1)
	b.register(capsule.StatusSuccess, 1)
	b.acquire(capsule.StatusSuccess, 1, writeExclusive)
	store.set(true, nil)
	b.io.start(writeOf(2))
	f.within(b.io, "the store has it", func() bool { return store.inFlight() == 1 })
	removed := make(chan error)
	go func() { removed <- far.device.Remove("test") }()
	follower.notified(2)
	select {
	case <-removed:
		t.Error("a device is removed with a write in flight")
	case <-time.After(20 * time.Millisecond):
	}
	store.set(false, nil)
	f.must(<-removed)
	<-b.admin.closed
	<-b.io.closed
	if n := fake.registered(); n != 0 {
		t.Errorf("%d memory regions of the device are still registered", n)
	}
	if err := far.device.Remove("test"); !errors.Is(err, rdmatransport.ErrClosed) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := far.device.Listen(ListenerConfig{Addr: far.Addr()}); err == nil {
		t.Error("a device that was removed listens")
	}
	a.io.wantOK(readOf(1))
	a.io.wantStatus(conflict, writeOf(1))
	f.must(ns.Pause(0))

	_, far = f.second(ListenerConfig{ID: 7})
	follower.notified(3)
	f.at = far
	b = f.tenant("b", f.sub, 1)
	b.io.wantOK(writeOf(1))
	held := b.io.start(writeOf(2))
	held.wantPending()
	f.must(ns.Resume())
	if r := <-held.response; !r.status.OK() {
		t.Errorf("after the pause: %v", r.status)
	}
	var n health.Counts
	if f.sub.Namespaces()[0].ns.AddTo(&n); n.Writes != 1 {
		t.Errorf("%d writes are counted", n.Writes)
	}
	f.must(f.sub.RemoveNamespace(2))
	b.io.wantStatus(capsule.StatusInvalidNamespace|dnr, writeOf(2))
}

// TestHangingStoreHoldsUpNobodyElse: while the removal of a device and of a namespace waits for a store that
// hangs, everything else in the target can be changed, and the store is named.
func TestHangingStoreHoldsUpNobodyElse(t *testing.T) {
	f := newFixture(t)
	store := newFakeStore(1 << 20)
	_, err := f.sub.AddNamespace(NamespaceConfig{Store: store, Name: "hanging.img"})
	f.must(err)
	a := f.associate(testHostNQN, f.listen("192.0.2.1:4420"))
	_, far := f.second(ListenerConfig{})
	f.at = far
	b := f.tenant("b", f.sub, 1)
	store.set(true, nil)
	b.io.start(writeOf(2))
	f.within(b.io, "the store has it", func() bool { return store.inFlight() == 1 })
	ended := make(chan error, 2)
	go func() { ended <- far.device.Remove("test") }()
	go func() { ended <- f.sub.RemoveNamespace(2) }()
	f.within(a.io, "both have begun", func() bool { return len(f.target.Listeners()) == 1 && len(f.sub.Namespaces()) == 1 })
	if got := far.device.Unfinished(); !slices.Equal(got, []string{"hanging.img"}) {
		t.Errorf("the device waits for %v", got)
	}

	others := make(chan error, 1)
	go func() { others <- f.changeAll() }()
	select {
	case err := <-others:
		f.must(err)
	case err := <-ended:
		t.Fatal("what waits for the store has ended", err)
	case <-time.After(30 * time.Second):
		t.Fatal("changes of others wait too")
	}
	a.io.wantOK(readOf(1))
	store.set(false, nil)
	f.must(errors.Join(<-ended, <-ended))
	if got := far.device.Unfinished(); len(got) != 0 {
		t.Errorf("a device that was removed waits for %v", got)
	}
	_, err = f.sub.AddNamespace(NamespaceConfig{Store: store, NSID: 2})
	f.must(err)
}

// changeAll adds and removes one object of each kind.
func (f *fixture) changeAll() error {
	d, err := f.target.AddDevice(newFakeDevice())
	if err != nil {
		return err
	}
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + "2"})
	if err != nil {
		return err
	}
	_, err = s.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Name: "other.img"})
	n, err2 := f.sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 3})
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	f.target.Revalidate()
	_ = f.target.Controllers()
	return errors.Join(n.Pause(0), n.Resume(), f.sub.RemoveNamespace(3), f.target.RemoveSubsystem(s.NQN()), d.Remove("test"))
}

// TestDevicesAreBounded: one too many is refused, and leaves nothing behind.
func TestDevicesAreBounded(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.Shards, c.Arena = 4, 1<<20 })
	for range storage.MaxShards/4 - 1 {
		_, err := f.target.AddDevice(newFakeDevice())
		f.must(err)
	}
	fake := newFakeDevice()
	if _, err := f.target.AddDevice(fake); err == nil || !strings.Contains(err.Error(), "256 shards") {
		t.Errorf("error %v", err)
	}
	if n := fake.registered(); n != 0 {
		t.Errorf("%d memory regions are left", n)
	}
	_, io := f.both()
	io.wantOK(writeOf(1))
}

// TestDeviceUnderLoad: a device is removed and added again while hosts work through it and through another one,
// over softroce.
func TestDeviceUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := softroce.NewNetwork(3)
		open := func(a string) rdmatransport.Device {
			addr := netip.MustParseAddr(a)
			d, err := softroce.Open(softroce.Config{Addr: addr, Shards: 2, Network: n})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		r := newRemote(t, func(*testing.T) (target, host rdmatransport.Device) {
			return open(targetAddr.String()), open(hostAddr.String())
		})
		_, io := r.controller(1)
		const far = "192.0.2.3"
		for round := range 4 {
			device := open(far)
			d, err := r.target.AddDevice(device)
			if err != nil {
				t.Fatal(err)
			}
			l, err := d.Listen(ListenerConfig{Addr: netip.MustParseAddrPort(far + ":4420")})
			if err != nil {
				t.Fatal(err)
			}
			r.addr = l.Addr()
			_, other := r.controller(2)
			var begun []chan *fabric.Request
			for i := range 32 {
				begun = append(begun, other[i%2].start(rwCommand(capsule.IOWrite, capsule.LBA(i), 1), i*4096, 4096))
			}
			late, err := memory.New(memory.Config{Size: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.sub.AddNamespace(NamespaceConfig{Store: late, NSID: 2}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.Remove("test"), device.Close()); err != nil {
				t.Fatal(err)
			}
			for _, c := range begun {
				<-c // done, or failed with its queue
			}
			<-other[0].ended
			<-other[1].ended
			io[0].do(rwCommand(capsule.IORead, capsule.LBA(round), 1), 0, 4096)
			if err := errors.Join(r.sub.RemoveNamespace(2), late.Close()); err != nil {
				t.Fatal(err)
			}
		}
		r.close()
	})
}

// TestTargetWithoutDevice: a target may start without a device.
func TestTargetWithoutDevice(t *testing.T) {
	target, err := New(Config{Arena: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := target.AddSubsystem(SubsystemConfig{NQN: testSubNQN})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sub.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20)}); err != nil {
		t.Fatal(err)
	}
	if _, err := target.Listen(netip.MustParseAddrPort("192.0.2.1:4420")); err == nil {
		t.Error("it listens")
	}
	dev, err := rdmatest.NewLoopback().Open(targetAddr, rdmatest.Attrs())
	if err != nil {
		t.Fatal(err)
	}
	d, err := target.AddDevice(dev)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Listen(ListenerConfig{Addr: netip.AddrPortFrom(targetAddr, 4420)})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(target.Close(), dev.Close()); err != nil {
		t.Error(err)
	}
	if err := l.Err(); !errors.Is(err, rdmatransport.ErrClosed) {
		t.Error(err)
	}
	if _, err := target.AddDevice(dev); !errors.Is(err, rdmatransport.ErrClosed) {
		t.Errorf("a device is added to a closed target: %v", err)
	}
}

// TestListenAfterTheEnd: a device whose shards have ended, because it was removed or the target closed, is not
// asked to listen, since it would not answer.
func TestListenAfterTheEnd(t *testing.T) {
	network := softroce.NewNetwork(1)
	target, err := New(Config{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	var devices []*Device
	for _, addr := range []string{"10.0.0.1", "10.0.0.2"} {
		dev, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(addr), Network: network})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		d, err := target.AddDevice(dev)
		if err != nil {
			t.Fatal(err)
		}
		devices = append(devices, d)
	}
	wantClosed := func(d *Device, addr string) {
		t.Helper()
		ended := make(chan error, 1)
		go func() {
			_, err := d.Listen(ListenerConfig{Addr: netip.MustParseAddrPort(addr)})
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, rdmatransport.ErrClosed) {
				t.Errorf("Listen: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Listen does not return")
		}
	}
	if err := devices[0].Remove("test"); err != nil {
		t.Fatal(err)
	}
	wantClosed(devices[0], "10.0.0.1:4420")
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	wantClosed(devices[1], "10.0.0.2:4420")
	locked := &lockedState{}
	if _, err := target.AddSubsystem(SubsystemConfig{NQN: testSubNQN, State: locked}); !errors.Is(err, rdmatransport.ErrClosed) || locked.held != 0 {
		t.Errorf("AddSubsystem: %v, and its state is locked %d times", err, locked.held)
	}
}

// A lockedState counts its locks.
type lockedState struct{ held int }

func (s *lockedState) Load() ([]byte, error) { return nil, nil }
func (s *lockedState) Save([]byte) error     { return nil }
func (s *lockedState) Lock() (unlock func() error, err error) {
	s.held++
	return func() error { s.held--; return nil }, nil
}
