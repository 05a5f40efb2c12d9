package target

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/storage"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/target/internal/health"
)

// An ailingStore is a store with a free space and a drive that the test sets.
type ailingStore struct {
	*fakeStore
	mu      sync.Mutex
	free    int64
	drive   backend.Health
	failure error
}

func (s *ailingStore) Room() (free, total int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free, 1 << 40, nil
}

func (s *ailingStore) Health() (backend.Health, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drive.Known == 0 {
		return s.drive, backend.ErrNoHealth
	}
	return s.drive, nil
}

func (s *ailingStore) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

func (s *ailingStore) Clear() error {
	s.set(func() { s.failure = nil })
	return nil
}

func (s *ailingStore) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// ailing returns a fixture with such a store of 1 MiB, half of it allocated, as namespace 2.
func ailing(t *testing.T) (*fixture, *ailingStore, func(), *hostQueue) {
	f := newFixture(t, func(c *Config) { c.Revalidate = -1 })
	s := &ailingStore{fakeStore: newFakeStore(1 << 20), free: 1 << 30}
	ns := f.export(s)
	h, _ := f.connectAdmin(0)
	now := time.Now()
	examine := func() {
		now = now.Add(storage.AskDrives)
		ns.subsystem.target.examine(ns.ns.Volume, now)
		h.turns(2)
	}
	examine()
	return f, s, examine, h
}

func (h *hostQueue) enableEvents(bits uint32) {
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureAsyncEvent, Value: bits}, nil))
}

func (h *hostQueue) smart(nsid capsule.NSID) capsule.SMARTLog {
	h.t.Helper()
	b := make([]byte, capsule.SMARTLogSize)
	c := adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogSMART, Length: uint64(len(b))}, b)
	c.sqe.NSID = nsid
	h.wantOK(c)
	s, err := capsule.DecodeSMARTLog(b)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *hostQueue) wantEvent(c *hostCommand, want capsule.AsyncEvent) {
	h.t.Helper()
	select {
	case r := <-c.response:
		if got := capsule.ParseAsyncEvent(uint32(r.result)); got != want {
			h.t.Errorf("event %+v, want %+v", got, want)
		}
	case <-time.After(5 * time.Second):
		h.t.Errorf("no event, want %+v", want)
	}
}

func smartNotice(info uint8) capsule.AsyncEvent {
	return capsule.AsyncEvent{Type: capsule.EventTypeSMART, Info: info, LID: capsule.LogSMART}
}

func TestSpareRunsOut(t *testing.T) {
	f, s, examine, h := ailing(t)
	trouble := func() (all string) {
		for _, n := range f.sub.Namespaces() {
			all += n.Trouble()
		}
		return all
	}
	h.enableEvents(capsule.EventSMART)
	e := h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
	s.set(func() { s.free = 1 << 17 }) // a quarter of what is still to be allocated
	examine()
	e.wantPending()
	if why := trouble(); why != "" {
		t.Error(why)
	}
	if l := h.smart(2); l.AvailableSpare != 25 || l.CriticalWarning != 0 {
		t.Errorf("spare %d, warning %#x with a quarter of the room", l.AvailableSpare, l.CriticalWarning)
	}
	s.set(func() { s.free = 1 << 15 })
	examine()
	h.wantEvent(e, smartNotice(capsule.SMARTSpare))
	if l := h.smart(capsule.NSIDBroadcast); l.AvailableSpare != 6 || l.CriticalWarning != capsule.WarningSpare || l.SpareThreshold != 10 {
		t.Errorf("spare %d, warning %#x, threshold %d", l.AvailableSpare, l.CriticalWarning, l.SpareThreshold)
	}
	if l := h.smart(1); l.AvailableSpare != 100 || l.CriticalWarning != 0 {
		t.Errorf("the other namespace's page: spare %d, warning %#x", l.AvailableSpare, l.CriticalWarning)
	}
	if why := trouble(); !strings.Contains(why, "running out: 6 % is left") {
		t.Errorf("the trouble is %q", why)
	}
	// Reported once, and again after it has ended.
	e = h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
	examine()
	e.wantPending()
	s.set(func() { s.free = 1 << 30 })
	examine()
	if why := trouble(); why != "" {
		t.Error(why)
	}
	s.set(func() { s.free = 0 })
	examine()
	h.wantEvent(e, smartNotice(capsule.SMARTSpare))
}

// TestFailedStoreIsAnErrorEvent is row 80: a failed flush is reported by an event and a critical warning, until an
// administrator clears it.
func TestFailedStoreIsAnErrorEvent(t *testing.T) {
	_, s, examine, h := ailing(t)
	e := h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil)) // no event is enabled
	s.set(func() { s.failure = errors.New("flush failed") })
	examine()
	h.wantEvent(e, capsule.AsyncEvent{Type: capsule.EventTypeError, Info: capsule.ErrorPersistentInternal, LID: capsule.LogError})
	if w := h.smart(0).CriticalWarning; w != capsule.WarningReliability|capsule.WarningReadOnly {
		t.Errorf("critical warning %#x", w)
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	examine()
	if w := h.smart(0).CriticalWarning; w != 0 {
		t.Errorf("critical warning %#x after it was cleared", w)
	}
}

// TestCutOffIsAWarning: if a store becomes shorter, that is a warning, with an event if the host has enabled it.
// It is no internal error, after which Linux would reset the controller, and with it the other namespaces.
func TestCutOffIsAWarning(t *testing.T) {
	f, s, examine, h := ailing(t)
	h.enableEvents(uint32(capsule.WarningReliability))
	e := h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
	s.mu.Lock()
	s.size = s.info.Size / 2
	s.mu.Unlock()
	f.target.Revalidate()
	examine()
	h.wantEvent(e, smartNotice(capsule.SMARTReliability))
	if w := h.smart(2).CriticalWarning; w != capsule.WarningReliability {
		t.Errorf("critical warning %#x", w)
	}
}

func TestDriveHealth(t *testing.T) {
	_, s, examine, h := ailing(t)
	if l := h.smart(2); l.Temperature != health.Unknown {
		t.Errorf("temperature %d without a drive", l.Temperature)
	}
	s.set(func() {
		s.drive = backend.Health{
			Known: backend.HealthTemperature | backend.HealthSpare | backend.HealthUsed | backend.HealthWarning,
			Spare: 90, Temperature: 320, Used: 7, Warning: backend.WarnVolatile, PowerOnHours: 12345, PowerCycles: 99, MediaErrors: 3,
		}
	})
	examine()
	l := h.smart(0)
	if l.Temperature != 320 || l.AvailableSpare != 90 || l.PercentageUsed != 7 || l.PowerOnHours.Lo != 12345 ||
		l.PowerCycles.Lo != 99 || l.MediaErrors.Lo != 3 || l.CriticalWarning != capsule.WarningBackup {
		t.Errorf("SMART log %+v", l)
	}
}

func TestTemperatureThreshold(t *testing.T) {
	_, s, examine, h := ailing(t)
	set := func(v uint32) *hostCommand {
		return adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureTemperatureThreshold, Value: v}, nil)
	}
	get := func(v uint32) *hostCommand {
		return adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: capsule.FeatureTemperatureThreshold, Value: v}, nil)
	}
	const under, sensor1, all, reserved = 1 << 20, 1 << 16, 15 << 16, 2 << 20
	for _, c := range []*hostCommand{set(sensor1 | 300), set(reserved | 300), get(sensor1), get(all), get(reserved)} {
		h.wantStatus(invalidField, c)
	}
	if r := h.wantOK(get(0)); r.result != health.Warning {
		t.Errorf("threshold %d before one was set", r.result)
	}
	h.enableEvents(capsule.EventSMART)
	e := h.start(adminCommand(capsule.AdminAsyncEvent, nil, nil))
	h.wantOK(set(all | 330))
	h.wantOK(set(under | 280))
	if r := h.wantOK(get(0)); r.result != 330 {
		t.Errorf("threshold %d", r.result)
	}
	if r := h.wantOK(get(under)); r.result != 280 {
		t.Errorf("lower threshold %d", r.result)
	}
	e.wantPending()
	s.set(func() { s.drive = backend.Health{Known: backend.HealthTemperature, Temperature: 331} })
	examine()
	h.wantEvent(e, smartNotice(capsule.SMARTTemperature))
	if w := h.smart(0).CriticalWarning; w != capsule.WarningTemperature {
		t.Errorf("critical warning %#x", w)
	}
}

func TestSMARTOfANamespaceThatIsNotThere(t *testing.T) {
	_, _, _, h := ailing(t)
	b := make([]byte, 512)
	c := adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogSMART, Length: 512}, b)
	c.sqe.NSID = 3
	h.wantStatus(capsule.StatusInvalidNamespace|dnr, c)
}

func TestUnsafeShutdowns(t *testing.T) {
	f := newFixture(t)
	orderly, _ := f.connectAdmin(0)
	orderly.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownNormal))
	orderly.Disconnect()
	<-orderly.closed
	lost, _ := f.connectAdmin(0)
	lost.lose()
	<-lost.closed
	h, _ := f.connectAdmin(0)
	if n := h.smart(0).UnsafeShutdowns.Lo; n != 1 {
		t.Errorf("%d unsafe shutdowns, want 1", n)
	}
}

func TestProgressMarkerOutlivesReset(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	h.wantOK(adminCommand(capsule.AdminSetFeatures, capsule.SetFeatures{FID: capsule.FeatureProgressMarker, Value: 3}, nil))
	h.setCC(0)
	h.setCC(linuxCC.WithEnable(true))
	r := h.wantOK(adminCommand(capsule.AdminGetFeatures, capsule.GetFeatures{FID: capsule.FeatureProgressMarker}, nil))
	if r.result != 3 {
		t.Errorf("marker %d", r.result)
	}
}

// TestFeaturesLog compares the page with the behaviour of the controller.
func TestFeaturesLog(t *testing.T) {
	f := newFixture(t)
	h, _ := f.connectAdmin(0)
	page := logInto(h, capsule.LogFIDEffects, 1024, 0)
	for id := range 256 {
		e := capsule.FeatureEffects(binary.LittleEndian.Uint32(page[4*id:]))
		g := capsule.GetFeatures{FID: capsule.FID(id), Select: capsule.SelectSupported}
		status := h.do(adminCommand(capsule.AdminGetFeatures, g, nil)).status
		if supported := e&capsule.FIDSupported != 0; supported != status.OK() {
			t.Errorf("feature %02xh: supported %v, but Get Features says %v", id, supported, status)
		}
	}
	for _, b := range logInto(h, capsule.LogMIEffects, 1024, 0) {
		if b != 0 {
			t.Fatal("an NVMe-MI command is supported")
		}
	}
}

// TestClearFault: an administrator makes a store accept writes again, hosts no longer see the warning, and are
// notified of the next failure.
func TestClearFault(t *testing.T) {
	f, s, examine, h := ailing(t)
	ns := f.sub.Namespaces()[1]
	if err := ns.ClearFault(); err == nil || !strings.Contains(err.Error(), "has not failed") {
		t.Errorf("a store that is well is cleared: %v", err)
	}
	for range 2 {
		s.set(func() { s.failure = errors.New("input/output error") })
		examine()
		if w := h.smart(2).CriticalWarning; w != capsule.WarningReliability|capsule.WarningReadOnly {
			t.Errorf("critical warning %#x of a store that has failed", w)
		}
		f.must(ns.ClearFault())
		h.turns(2)
		if w := h.smart(2).CriticalWarning; w != 0 {
			t.Errorf("critical warning %#x after it was cleared", w)
		}
	}
	f.must(f.sub.RemoveNamespace(2))
	if err := ns.ClearFault(); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("a namespace that was removed is cleared: %v", err)
	}
}
