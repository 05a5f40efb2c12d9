package target

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// living returns a fixture with a second subsystem that has a state, and whose namespace 1 has counters.
func living(t *testing.T, state StateStore) (*fixture, *Subsystem) {
	t.Helper()
	f := newFixture(t)
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":living", State: state})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := s.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return f, s
}

func (h *tenant) smart(nsid capsule.NSID) capsule.SMARTLog {
	h.admin.t.Helper()
	b := make([]byte, capsule.SMARTLogSize)
	c := adminCommand(capsule.AdminGetLogPage, capsule.GetLogPage{LID: capsule.LogSMART, Length: capsule.SMARTLogSize}, b)
	c.sqe.NSID = nsid
	h.admin.wantOK(c)
	s, err := capsule.DecodeSMARTLog(b)
	if err != nil {
		h.admin.t.Fatal(err)
	}
	return s
}

func (h *tenant) wantLife(cycles, unsafe, writes, errs uint64) {
	h.admin.t.Helper()
	s := h.smart(capsule.NSIDBroadcast)
	if s.PowerCycles.Lo != cycles || s.UnsafeShutdowns.Lo != unsafe || s.HostWrites.Lo != writes || s.ErrorLogEntries.Lo != errs {
		h.admin.t.Errorf("%d power cycles, %d unsafe shutdowns, %d writes, %d errors; want %d, %d, %d, %d",
			s.PowerCycles.Lo, s.UnsafeShutdowns.Lo, s.HostWrites.Lo, s.ErrorLogEntries.Lo, cycles, unsafe, writes, errs)
	}
}

// bye ends an association in order.
func (h *tenant) bye() {
	h.admin.setCC(linuxCC.WithEnable(true).WithShutdown(capsule.ShutdownNormal))
	<-h.io.closed
	h.admin.lose()
}

// TestLifeSurvives: a target continues the counters of its previous run; after a kill there is one more unsafe
// shutdown. Write protection stays, except that until the next power cycle.
func TestLifeSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f, s := living(t, StateFile(path))
	a := f.tenant("a", s, 0)
	a.wantLife(1, 0, 0, 0)
	a.io.wantOK(writeOf(1))
	a.io.wantOK(writeOf(2))
	a.io.wantStatus(capsule.StatusInvalidNamespace|dnr, ioCommand(capsule.IOFlush, 77, nil, nil))
	a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtected))
	a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 2, uint32(capsule.WriteProtectedUntilOff))
	killed, err := os.ReadFile(path) // as it is now: protected, with the counters so far
	f.must(err)
	a.bye()
	f.must(f.target.Close())

	f, s = living(t, StateFile(path))
	a = f.tenant("a", s, 0)
	a.wantLife(2, 0, 2, 1)
	if one := a.smart(1); one.HostWrites.Lo != 1 {
		t.Errorf("namespace 1 has %d writes", one.HostWrites.Lo)
	}
	a.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(1))
	a.io.wantOK(writeOf(2))
	a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtectNone))
	a.io.wantOK(writeOf(1))
	f.must(s.RemoveNamespace(2)) // its counters are kept for its return
	if _, err := s.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 2, Name: "two"}); err != nil {
		t.Fatal(err)
	}
	a.wantLife(2, 0, 4, 2)
	a.bye()
	f.must(f.target.Close())

	f.must(os.WriteFile(path, killed, 0o600))
	f, s = living(t, StateFile(path))
	a = f.tenant("a", s, 0)
	a.wantLife(2, 1, 2, 1)
	a.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(1))
}

// TestStateOfAnotherNamespace: another namespace does not get the state of the one that it replaces. If that was
// protected, a log line says that the new one may be written: the same data may have been restored without its
// identity.
func TestStateOfAnotherNamespace(t *testing.T) {
	f, s := living(t, nil)
	was := s.table().Get(1).UUID
	a := f.tenant("a", s, 0)
	a.io.wantOK(writeOf(1))
	a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtected))
	f.must(s.RemoveNamespace(1))
	if _, err := s.AddNamespace(NamespaceConfig{Store: newFakeStore(1 << 20), NSID: 1, Name: "other"}); err != nil {
		t.Fatal(err)
	}
	said := f.logs.FilterMessage("hosts write-protected a namespace, but another namespace has its NSID now, and is writable")
	if said.Len() != 1 || said.All()[0].ContextMap()["was"] != was.String() || said.All()[0].ContextMap()["is"] != s.table().Get(1).UUID.String() {
		t.Errorf("the log has %v of UUID %v", said.All(), was)
	}
	b := f.tenant("b", s, 0)
	b.io.wantOK(writeOf(1))
	if one := b.smart(1); one.HostWrites.Lo != 1 {
		t.Errorf("namespace 1 has %d writes", one.HostWrites.Lo)
	}
}

// TestBadStateFile: a subsystem whose state cannot be read, or is in use by another target, cannot be added: hosts
// could write to protected namespaces.
func TestBadStateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f, _ := living(t, StateFile(path))
	add := func(path string) error {
		_, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":another", State: StateFile(path)})
		return err
	}
	if err := add(path); err == nil || !strings.Contains(err.Error(), "another target uses them") {
		t.Errorf("a file in use: %v", err)
	}
	whole, err := os.ReadFile(path)
	f.must(err)
	for name, content := range map[string]string{
		"empty": "", "cut": string(whole[:len(whole)/2]), "other": "hello", "changed": strings.Replace(string(whole), `"power-cycles":1`, `"power-cycles":7`, 1),
	} {
		f.must(os.WriteFile(path+name, []byte(content), 0o600))
		if err := add(path + name); err == nil || !strings.Contains(err.Error(), "counters") || StateFile(path+name).Check() == nil {
			t.Errorf("%s file: %v", name, err)
		}
	}
	f.must(add(path + ".new.one"))
}

// countedState counts how often it is saved, and fails on demand.
type countedState struct {
	saves atomic.Int64
	err   error
}

func (c *countedState) Load() ([]byte, error) { return nil, nil }
func (c *countedState) Save([]byte) error     { c.saves.Add(1); return c.err }

// TestStateIsWrittenSeldom: at most once a minute while hosts send commands, and otherwise only once an hour.
func TestStateIsWrittenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &countedState{}
		f, s := living(t, state)
		a := f.tenant("a", s, 0)
		start := state.saves.Load()
		for range 300 {
			a.io.wantOK(writeOf(1))
			time.Sleep(time.Second)
		}
		if n := state.saves.Load() - start; n < 4 || n > 5 {
			t.Errorf("%d times in 5 minutes with writes", n)
		}
		time.Sleep(2 * time.Minute)
		start = state.saves.Load()
		time.Sleep(150 * time.Minute)
		if n := state.saves.Load() - start; n != 2 {
			t.Errorf("%d times in 150 minutes of silence", n)
		}
		f.close2(t)
	})
}

// TestStateMoves: the new store gets the record of the old one, which another target may then use.
func TestStateMoves(t *testing.T) {
	dir := t.TempDir()
	first, second := StateFile(filepath.Join(dir, "first")), StateFile(filepath.Join(dir, "second"))
	f, s := living(t, first)
	a := f.tenant("a", s, 0)
	a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtected))
	f.must(os.WriteFile(string(second), []byte("hello"), 0o600))
	if err := s.Configure(SubsystemConfig{State: second}); err == nil {
		t.Error("it moves onto a file that is something else")
	}
	f.must(os.Remove(string(second)))
	f.must(s.Configure(SubsystemConfig{State: second}))
	f.must(s.Configure(SubsystemConfig{State: second})) // no change
	for _, place := range []StateFile{first, second} {
		r, err := loadLife(place)
		if err != nil || r.Namespaces[1].Protection != capsule.WriteProtected || r.Running != (place == second) {
			t.Errorf("%s has %+v, %v", place, r, err)
		}
	}
	unlock, err := first.Lock()
	f.must(err)
	f.must(unlock())
	f.must(s.Configure(SubsystemConfig{}))
	unlock, err = second.Lock()
	f.must(err)
	f.must(unlock())
}

// TestProtectionNotSaved: a namespace is not protected if that cannot be saved.
func TestProtectionNotSaved(t *testing.T) {
	state := &countedState{}
	f, s := living(t, state)
	a := f.tenant("a", s, 0)
	state.err = errors.New("disk is gone")
	a.setFeature(capsule.StatusInternalError, capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtected))
	a.io.wantOK(writeOf(1))
	if f.logged("counters not saved") != 1 {
		t.Error("no line about it")
	}
	state.err = nil
	a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtected))
	a.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(1))
}

// TestAwaitedState: no namespace can be added before the state is known, and a store that is configured instead
// keeps its record.
func TestAwaitedState(t *testing.T) {
	dir := t.TempDir()
	bad, good := StateFile(filepath.Join(dir, "bad")), StateFile(filepath.Join(dir, "good"))
	f, s := living(t, good)
	a := f.tenant("a", s, 0)
	a.setFeature(capsule.StatusSuccess, capsule.FeatureNamespaceWriteProtect, 1, uint32(capsule.WriteProtected))
	a.bye()
	f.must(f.target.Close())

	f = newFixture(t)
	f.must(os.WriteFile(string(bad), []byte("hello"), 0o600))
	s, err := f.target.AddSubsystem(SubsystemConfig{NQN: testSubNQN + ":living", State: bad, AwaitState: true})
	f.must(err)
	one := NamespaceConfig{Store: newFakeStore(1 << 20), Name: "one"}
	if _, err := s.AddNamespace(one); err == nil || !strings.Contains(err.Error(), string(bad)) {
		t.Errorf("a namespace comes without its state: %v", err)
	}
	f.must(s.Configure(SubsystemConfig{State: bad})) // no change
	if _, err := s.AddNamespace(one); err == nil {
		t.Error("a namespace comes without its state")
	}
	f.must(s.Configure(SubsystemConfig{State: good}))
	if _, err := s.AddNamespace(one); err != nil {
		t.Fatal(err)
	}
	a = f.tenant("a", s, 0)
	a.wantLife(2, 0, 0, 0)
	a.io.wantStatus(capsule.StatusNamespaceWriteProtected|dnr, writeOf(1))
	a.bye()
	f.must(f.target.Close())
	if b, err := os.ReadFile(string(bad)); err != nil || string(b) != "hello" {
		t.Errorf("it is written over: %q, %v", b, err)
	}
}

// A hungState is a StateStore that does not answer while it hangs.
type hungState struct {
	savedState
	hangs  atomic.Bool
	answer chan struct{}
}

func (s *hungState) Save(b []byte) error {
	if s.hangs.Load() {
		<-s.answer
	}
	return s.savedState.Save(b)
}

// TestStateHangs: a subsystem whose state store hangs delays the saving of other subsystems' states, but not the
// examination of namespaces' stores.
func TestStateHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &hungState{answer: make(chan struct{})}
		f, s := living(t, state)
		store := newFakeStore(1 << 20)
		ns := f.export(store)
		f.tenant("a", s, 0).io.wantOK(writeOf(1))
		state.hangs.Store(true)
		time.Sleep(2 * savePeriod)
		store.mu.Lock()
		store.size = 2 << 20
		store.mu.Unlock()
		time.Sleep(10 * time.Second)
		if size := ns.Info().Size; size != 2<<20 {
			t.Errorf("a namespace whose store has grown has %d bytes", size)
		}
		state.hangs.Store(false)
		close(state.answer)
		f.close2(t)
	})
}
