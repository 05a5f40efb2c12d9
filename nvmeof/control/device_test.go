package control

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// A machine has devices that appear and disappear.
type machine struct {
	mu     sync.Mutex
	away   map[netip.Addr]bool
	open   map[netip.Addr]*fragile
	opened int
}

func newMachine() *machine {
	return &machine{away: map[netip.Addr]bool{}, open: map[netip.Addr]*fragile{}}
}

// device implements Config.Device.
func (m *machine) device(a netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away[a] {
		return nil, syscall.EADDRNOTAVAIL
	}
	dev, err := softroce.Open(softroce.Config{Addr: a})
	if err != nil {
		return nil, err
	}
	ctx, lose := context.WithCancel(context.Background())
	f := &fragile{Device: dev, machine: m, addr: a, lost: ctx, lose: lose}
	m.open[a] = f
	m.opened++
	return f, nil
}

// set says whether a device exists. An open one is lost when it does not.
func (m *machine) set(a netip.Addr, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away[a] = !there
	if f := m.open[a]; f != nil && !there {
		f.lose()
	}
}

func (m *machine) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.open)
}

// A fragile device can be lost.
type fragile struct {
	rdmatransport.Device
	machine *machine
	addr    netip.Addr
	lost    context.Context
	lose    context.CancelFunc
}

func (f *fragile) Listen(at netip.AddrPort) (rdmatransport.Listener, error) {
	l, err := f.Device.Listen(at)
	return &fragileListener{l, f}, err
}

func (f *fragile) Close() error {
	f.machine.mu.Lock()
	delete(f.machine.open, f.addr)
	f.machine.mu.Unlock()
	return f.Device.Close()
}

type fragileListener struct {
	rdmatransport.Listener
	device *fragile
}

func (l *fragileListener) Accept(ctx context.Context) (rdmatransport.ConnRequest, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.device.lost, cancel)()
	r, err := l.Listener.Accept(ctx)
	if l.device.lost.Err() != nil {
		return nil, rdmatransport.ErrDeviceLost
	}
	return r, err
}

const twoAddresses = `version: 1
listeners:
  - id: 1
    address: ADDR:4420
  - id: 2
    address: ADDR2:4420
  - id: 3
    address: ADDR2:4421
subsystems:
  - nqn: a
    allow-any-host: true
    namespaces:
      - nsid: 1
        memory:
          size: 1MiB
`

func (r *rig) await(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// TestDevicesOfListeners: listeners of one address share a device, which is opened with the first and closed with
// the last.
func TestDevicesOfListeners(t *testing.T) {
	m := newMachine()
	r := newRig(t, func(c *Config) { c.Device = m.device })
	r.apply(r.doc(twoAddresses))
	if m.opened != 2 {
		t.Errorf("%d devices for 2 addresses", m.opened)
	}
	without := func(lines string) *config.Document { return r.doc(strings.Replace(twoAddresses, lines, "", 1)) }
	r.apply(without("  - id: 3\n    address: ADDR2:4421\n"))
	if n := m.count(); n != 2 {
		t.Errorf("%d devices are open with a listener on each", n)
	}
	r.apply(without("  - id: 2\n    address: ADDR2:4420\n  - id: 3\n    address: ADDR2:4421\n"))
	if n := m.count(); n != 1 {
		t.Errorf("%d devices are open for one listener", n)
	}
	m.set(r.second, false)
	if _, err := r.Apply(r.doc(twoAddresses), Options{}); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("an address that is not there: %v", err)
	}
	r.wantState(without("  - id: 2\n    address: ADDR2:4420\n  - id: 3\n    address: ADDR2:4421\n"))
}

// TestDeviceName: listeners whose addresses belong to one device share it.
func TestDeviceName(t *testing.T) {
	m := newMachine()
	r := newRig(t, func(c *Config) {
		c.Device = m.device
		c.DeviceName = func(netip.Addr, config.Transport) string { return "rxe0" }
	})
	_, err := r.Apply(r.doc(twoAddresses), Options{})
	if err == nil || m.opened != 1 { // a softroce device has only one address
		t.Errorf("%d devices are opened, error %v", m.opened, err)
	}
	if n := m.count(); n != 0 {
		t.Errorf("%d devices are left open by a change that failed", n)
	}
}

// A displaced device has another address than its listeners.
type displaced struct {
	rdmatransport.Device
	to netip.Addr
}

func (d displaced) Listen(at netip.AddrPort) (rdmatransport.Listener, error) {
	return d.Device.Listen(netip.AddrPortFrom(d.to, at.Port()))
}

// TestAddressGone: a listener whose address the machine has lost is reported as waiting, although its socket does
// not notice.
func TestAddressGone(t *testing.T) {
	var r *rig
	r = newRig(t, func(c *Config) {
		c.Device = func(a netip.Addr, _ config.Transport) (rdmatransport.Device, error) {
			if a != netip.MustParseAddr("192.0.2.77") { // no machine has this address
				return softroce.Open(softroce.Config{Addr: a})
			}
			dev, err := softroce.Open(softroce.Config{Addr: r.second})
			return displaced{dev, r.second}, err
		}
	})
	if _, err := r.Apply(r.doc("version: 1\nlisteners: [{id: 1, address: ADDR}, {id: 2, address: 192.0.2.77}]\n"), Options{}); err != nil {
		t.Fatal(err)
	}
	w := r.Status().Waiting
	if len(w) != 1 || w[0].Listener != 2 || w[0].Address != "192.0.2.77:4420" || !strings.Contains(w[0].Why, "this machine no longer has the address") {
		t.Errorf("waiting are %+v", w)
	}
}

// TestLostDevice: listeners of a lost device wait for it, others continue, and changes made meanwhile apply when it
// is back.
func TestLostDevice(t *testing.T) {
	t.Parallel()
	m := newMachine()
	r := newRig(t, func(c *Config) { c.Device = m.device })
	r.apply(r.doc(twoAddresses))
	m.set(r.second, false)
	r.await("two listeners wait", func() bool { return len(r.Status().Waiting) == 2 })
	if w := r.Status().Waiting; w[0].Listener != 2 || w[1].Listener != 3 || w[0].Address != r.second.String()+":4420" {
		t.Errorf("waiting %+v", w)
	}
	if all := r.target.Listeners(); len(all) != 1 || all[0].ID() != 1 {
		t.Errorf("listeners %v", all)
	}
	changed := strings.NewReplacer("  - id: 3\n    address: ADDR2:4421\n", "",
		"    address: ADDR2:4420\n", "    address: ADDR2:4420\n    ana-groups:\n      - group: 2\n        state: inaccessible\n").Replace(twoAddresses)
	if _, err := r.Apply(r.doc(changed), Options{}); err != nil {
		t.Fatal(err)
	}
	m.set(r.second, true)
	r.await("nobody waits", func() bool { return len(r.Status().Waiting) == 0 })
	r.wantState(r.doc(changed))
	m.set(r.second, false) // its listeners are removed while it waits
	r.await("it waits", func() bool { return len(r.Status().Waiting) == 1 })
}

// A sticky device returns an error when it is closed.
type sticky struct{ rdmatransport.Device }

func (s sticky) Close() error { return errors.Join(s.Device.Close(), errors.New("sticky")) }

// TestListenAgainSticky: a listener that waited is added although closing another device returns an error.
func TestListenAgainSticky(t *testing.T) {
	t.Parallel()
	var there atomic.Bool
	r := newRig(t, func(c *Config) {
		open := c.Device
		c.Device = func(a netip.Addr, tr config.Transport) (rdmatransport.Device, error) {
			if !there.Load() {
				return nil, syscall.ENODEV
			}
			return open(a, tr)
		}
	})
	if _, err := r.Apply(r.doc("version: 1\nlisteners: [{id: 1, address: ADDR}]\n"), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	dev, err := softroce.Open(softroce.Config{Addr: r.second})
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.target.AddDevice(sticky{dev})
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.devices["sticky"] = &heldDevice{name: "sticky", rdma: sticky{dev}, target: d}
	there.Store(true)
	r.mu.Unlock()
	r.await("the listener is there", func() bool { return len(r.target.Listeners()) == 1 })
	r.await("it waits no more", func() bool {
		return r.logs.FilterMessage("address is available, listener is open").Len() == 1 && len(r.Status().Waiting) == 0
	})
}

// TestStartWithTakenAddress: at a start, a listener waits if another process uses its address, and others are
// served. If no listener can be opened, the start fails. A change that adds such a listener fails.
func TestStartWithTakenAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	take := func(a netip.Addr) rdmatransport.Device {
		t.Helper()
		dev, err := softroce.Open(softroce.Config{Addr: a})
		if err != nil {
			t.Fatal(err)
		}
		return dev
	}
	one, two := take(r.addr), take(r.second)
	doc := r.doc(twoAddresses)
	var step *StepError
	if _, err := r.Apply(doc, Options{Wait: true}); !errors.As(err, &step) || step.Step.Name != "1" || step.Undo != nil || len(r.Status().Waiting) > 0 {
		t.Errorf("%v, waiting are %+v; want that the first is taken", err, r.Status().Waiting)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Apply(doc, Options{}); !errors.As(err, &step) || step.Step.Name != "2" {
		t.Errorf("%v, want that the second is taken", err)
	}
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	if w := r.Status().Waiting; len(w) != 2 || w[0].Listener != 2 || !strings.Contains(w[0].Why, r.second.String()) {
		t.Errorf("waiting are %+v", w)
	}
	h := newReturner(r)
	h.wantIn("a", "h1")
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	r.await("it is served", func() bool { return len(r.Status().Waiting) == 0 })
	h.options.Traddr = r.second
	h.wantIn("a", "h1")
}

// A refusing device can be told to refuse listeners.
type refusing struct {
	rdmatransport.Device
	refuse *atomic.Bool
}

func (d refusing) Listen(at netip.AddrPort) (rdmatransport.Listener, error) {
	if d.refuse.Load() {
		return nil, syscall.EADDRINUSE
	}
	return d.Device.Listen(at)
}

// TestListenerNotHadAgain: a listener that a change removed, and that cannot be added again when the change is
// undone, waits. It can be removed, and is added when its address is free.
func TestListenerNotHadAgain(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	r := newRig(t, func(c *Config) {
		open := c.Device
		c.Device = func(a netip.Addr, tr config.Transport) (rdmatransport.Device, error) {
			d, err := open(a, tr)
			return refusing{d, &refuse}, err
		}
	})
	base := r.doc(twoAddresses)
	r.apply(base)
	without := r.doc(strings.Replace(twoAddresses, "  - id: 3\n    address: ADDR2:4421\n", "", 1))
	fails := without.Clone()
	fails.Listeners = append(fails.Listeners, r.doc("version: 1\nlisteners: [{id: 99, address: \"ADDR:4499\"}]\n").Listeners...)
	undone := func() {
		t.Helper()
		refuse.Store(true)
		if _, err := r.Apply(fails, Options{Force: true}); err == nil || !strings.Contains(err.Error(), "not all earlier steps could be undone: add listener 3") {
			t.Fatal(err)
		}
		if w := r.Status().Waiting; len(w) != 1 || w[0].Listener != 3 {
			t.Errorf("waiting are %+v", w)
		}
	}
	undone()
	r.apply(without)
	refuse.Store(false)
	r.apply(base)
	undone()
	refuse.Store(false)
	r.await("it is there", func() bool { return len(r.Status().Waiting) == 0 })
	r.wantState(base)
}
