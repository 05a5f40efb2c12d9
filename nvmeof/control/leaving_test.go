package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest/observer"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// TestRemovalsThatHang: a change waits only so long for a store that hangs, reports which one it is, and does not
// delay other changes.
func TestRemovalsThatHang(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.leaveTimeout = 20 * time.Millisecond
	hang := make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(hang) }) }
	t.Cleanup(free) // before Close, which waits for it
	after := make(chan struct{})
	r.mu.Lock()
	err := r.remove(&leaving{what: "device rxe0", unfinished: exports("b.img", "a.img", "b.img")},
		func() error { <-hang; return nil }, func() { close(after) })
	r.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	left := r.Status().Leaving
	if len(left) != 1 || left[0].What != "device rxe0" || !slices.Equal(left[0].Unfinished, []string{"a.img", "b.img"}) || left[0].Since.IsZero() {
		t.Errorf("leaving: %+v", left)
	}
	lines := r.logs.FilterMessageSnippet("a store hangs").All()
	if len(lines) != 1 || lines[0].ContextMap()["removed"] != "device rxe0" {
		t.Errorf("log lines: %v", lines)
	}
	r.apply(r.doc(first)) // the change of another caller
	free()
	<-after
	r.await("nothing is leaving", func() bool { return len(r.Status().Leaving) == 0 })
	if r.logs.FilterMessage("delayed removal finished").Len() != 1 {
		t.Error("no log line that it is removed at last")
	}
	began, held := time.Now(), make(chan struct{})
	r.mu.Lock()
	r.leaveTimeout = 200 * time.Millisecond // for the first store
	for range 20 {
		_ = r.remove(&leaving{unfinished: exports()}, func() error { <-held; return nil }, func() {})
	}
	r.mu.Unlock()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("20 removals of what hangs took %v, and each may take %v", took, r.leaveTimeout)
	}
	close(held)
	r.await("nothing is leaving", func() bool { return len(r.Status().Leaving) == 0 })
	quick := errors.New("quick")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaveTimeout = time.Hour // however busy the machine is
	if err := r.remove(&leaving{unfinished: exports()}, func() error { return quick }, func() {}); err != quick {
		t.Errorf("a removal that does not hang: %v", err)
	}
}

// TestDeviceThatIsBeingRemoved: a device that is being removed cannot be opened; the error says why, and a listener
// waits for it.
func TestDeviceThatIsBeingRemoved(t *testing.T) {
	m := newMachine()
	r := newRig(t, func(c *Config) { c.Device = m.device })
	r.apply(r.doc(twoAddresses))
	r.mu.Lock()
	second := r.Manager.doc.Listeners[1]
	name := r.deviceName(second)
	d := r.devices[name]
	delete(r.devices, name)
	r.closings[name] = d
	_, err := r.device(second)
	away := r.away(err)
	r.devices[name] = d
	delete(r.closings, name)
	r.mu.Unlock()
	if !errors.As(err, new(*LeavingError)) || !away || !strings.Contains(err.Error(), "still being removed") {
		t.Errorf("error %v, waited for: %v", err, away)
	}
	e := &LeavingError{"device rxe0", []string{"a.img", "b.img"}}
	if !strings.Contains(e.Error(), "the file system or device of a.img, b.img") {
		t.Error(e)
	}
}

// TestSubsystemThatIsBeingRemoved: the error of a subsystem whose state is locked until its stores have finished
// says so, and not that another target has locked it.
func TestSubsystemThatIsBeingRemoved(t *testing.T) {
	r := newRig(t)
	doc := r.doc("version: 1\nsubsystems:\n- nqn: a\n  state: DIR/state\n")
	unlock, err := r.stores.stateFile(doc.Subsystems[0].State).Lock()
	if err != nil {
		t.Fatal(err)
	}
	l := &leaving{what: "subsystem a", unfinished: exports("a.img")}
	r.mu.Lock()
	r.leaving[l] = struct{}{}
	r.mu.Unlock()
	_, err = r.Apply(doc, Options{})
	if !errors.As(err, new(*LeavingError)) || !strings.Contains(err.Error(), "subsystem a is still being removed: it waits for commands that have not completed; check the file system or device of a.img") {
		t.Errorf("it is added: %v", err)
	}
	r.mu.Lock()
	delete(r.leaving, l)
	r.mu.Unlock()
	if _, err = r.Apply(doc, Options{}); err == nil || !strings.Contains(err.Error(), "another target uses them") {
		t.Errorf("locked by somebody else: %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	r.apply(doc)
}

// A muteStore does not return its size, like one whose file system hangs.
type muteStore struct {
	*memory.Store
	hang <-chan struct{}
}

func (s *muteStore) Refresh() (bool, error) { <-s.hang; return false, nil }

// TestCloseWhileStoreHangs: a target that stops reports for which store it waits.
func TestCloseWhileStoreHangs(t *testing.T) {
	hang := make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(hang) }) }
	r := newRig(t, func(c *Config) {
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			s, notes, err := OpenStore(n, pool)
			if n.Memory != nil {
				s = &muteStore{s.(*memory.Store), hang}
			}
			return s, notes, err
		}
	})
	t.Cleanup(free) // before the cleanup of the rig, which waits for it
	r.leaveTimeout = 20 * time.Millisecond
	r.apply(r.doc(first))
	r.await("it is asked", func() bool { return slices.Equal(r.target.Unfinished(), []string{"memory"}) })
	closed := make(chan error, 1)
	go func() { closed <- r.Close() }() // ends when it answers
	said := func() []observer.LoggedEntry { return r.logs.FilterMessageSnippet("stopping: a store hangs").All() }
	r.await("the log says so", func() bool { return len(said()) > 0 })
	time.Sleep(5 * r.leaveTimeout)
	if lines := said(); len(lines) != 1 || fmt.Sprint(lines[0].ContextMap()["waits_for_store_of"]) != "[memory]" {
		t.Errorf("log lines: %v", lines)
	}
	select {
	case err := <-closed:
		t.Errorf("closed while a store hangs: %v", err)
	default:
	}
	free()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
