package control

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/file"
	"github.com/nvmeof-go/nvmeof/backend/memory"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A hanging opener opens stores. For paths that contain "hung" it blocks until thaw. opened counts those.
type hanging struct {
	frozen chan struct{}
	once   sync.Once

	mu     sync.Mutex
	opened int
}

func (h *hanging) open(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
	if strings.Contains(string(n.Path()), "hung") {
		h.mu.Lock()
		h.opened++
		h.mu.Unlock()
		<-h.frozen
	}
	return OpenStore(n, pool)
}

func (h *hanging) thaw() { h.once.Do(func() { close(h.frozen) }) }

func (h *hanging) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opened
}

func newHanging(t *testing.T, change ...func(*Config)) (*rig, *hanging) {
	h := &hanging{frozen: make(chan struct{})}
	r := newRig(t, append([]func(*Config){func(c *Config) { c.Open = h.open }}, change...)...)
	t.Cleanup(func() {
		h.thaw()
		_ = r.Close()         // perhaps for the second time; the rig reports the error
		r.stores.calls.Wait() // otherwise the folder would change while it is removed
	})
	r.startTimeout, r.changeTimeout = 500*time.Millisecond, 600*time.Millisecond // the machine may be busy
	r.stores.setRecordTime(r.changeTimeout)
	return r, h
}

const hungDocument = `version: 1
listeners:
  - id: 1
    address: ADDR:4420
subsystems:
  - nqn: a
    hosts:
      - nqn: h1
    namespaces:
      - nsid: 1
        memory:
          size: 1MiB
      - nsid: 2
        file:
          path: DIR/hung
          size: 1MiB
`

// TestStartWithHungStore: if a file system does not answer, only its namespace waits, and is added when it has
// answered.
func TestStartWithHungStore(t *testing.T) {
	t.Parallel()
	r, h := newHanging(t)
	doc := r.doc(hungDocument)
	if _, err := r.Apply(doc, Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	s := r.Status()
	if len(s.Waiting) != 1 || s.Waiting[0].NSID != 2 || !strings.Contains(s.Waiting[0].Why, "has not answered since") {
		t.Errorf("waiting: %+v", s.Waiting)
	}
	if len(r.target.Listeners()) != 1 || len(r.target.Subsystems()[0].Namespaces()) != 1 {
		t.Error("the rest is not served")
	}
	time.Sleep(r.firstWait + 200*time.Millisecond) // it is retried
	if n := h.count(); n != 1 {
		t.Errorf("it is being opened %d times", n)
	}
	h.thaw()
	r.await("the namespace is there", func() bool { return len(r.Status().Waiting) == 0 })
	r.wantState(doc)
	if n := h.count(); n != 1 {
		t.Errorf("it was opened %d times", n)
	}
}

// TestChangeWithHungStore: a change that needs a store which does not answer fails, and the next one is made. Files
// that the failed one created are removed.
func TestChangeWithHungStore(t *testing.T) {
	t.Parallel()
	r, h := newHanging(t)
	before := r.doc(strings.Replace(hungDocument, "hung", "a", 1))
	r.apply(before)
	var hung *HungError
	for range 2 {
		if _, err := r.Apply(r.doc(hungDocument), Options{}); !errors.As(err, &hung) || hung.Path != config.Path(filepath.Join(r.dir, "hung")) {
			t.Fatalf("%v, want that it hangs", err)
		}
		r.wantState(before)
	}
	if _, err := r.Apply(r.doc(hungDocument), Options{DryRun: true}); !errors.As(err, &hung) {
		t.Errorf("a dry run: %v", err)
	}
	r.apply(r.doc(strings.Replace(hungDocument, "hung", "b", 1)))
	h.thaw()
	r.stores.calls.Wait()
	if _, err := os.Stat(filepath.Join(r.dir, "hung")); err == nil || h.count() != 1 {
		t.Errorf("the file was opened %d times, and is there", h.count())
	}
	r.apply(r.doc(hungDocument))
}

// Close of a lingering store blocks until it is released.
type lingering struct {
	backend.Store
	closed, letGo chan struct{}
}

func (s *lingering) Close() error {
	err := s.Store.Close()
	close(s.closed)
	<-s.letGo
	return err
}

// TestOpenedInVain: a file that took too long to create is removed, with its note, before another call can open it.
func TestOpenedInVain(t *testing.T) {
	t.Parallel()
	closed, letGo := make(chan struct{}), make(chan struct{})
	var r *rig
	var h *hanging
	r, h = newHanging(t, func(c *Config) {
		open := c.Open
		c.State = t.TempDir()
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			s, notes, err := open(n, pool)
			if err == nil && h.count() == 1 {
				s = &lingering{s, closed, letGo}
			}
			return s, notes, err
		}
	})
	doc := r.doc(strings.Replace(hungDocument, "memory:\n          size: 1MiB\n      - nsid: 2\n        ", "", 1))
	var hung *HungError
	if _, err := r.Apply(doc, Options{}); !errors.As(err, &hung) {
		t.Fatal(err)
	}
	h.thaw()
	<-closed
	_, err := r.Apply(doc, Options{})
	if err != nil && !errors.As(err, &hung) {
		t.Error(err)
	}
	close(letGo)
	r.stores.calls.Wait()
	if err != nil {
		r.apply(doc)
	}
	n := doc.Subsystems[0].Namespaces[0]
	if _, noted := r.stores.known.read(n); missing(n.Path()) || !noted {
		t.Errorf("the file that is served was removed: %v, and is noted: %v", missing(n.Path()), noted)
	}
}

// A slowMade store took long to allocate its file.
type slowMade struct{ *file.Store }

func (slowMade) Reserving() time.Duration { return time.Hour }

// TestMadeSlowly: a file whose allocation takes longer than a change may is kept, with its note. The change that fails
// says that it is being made, and is made once it is there.
func TestMadeSlowly(t *testing.T) {
	t.Parallel()
	r, h := newHanging(t, func(c *Config) {
		open := c.Open
		c.State = t.TempDir()
		c.Open = func(n *config.Namespace, pool *memory.Pool) (backend.Store, []string, error) {
			s, notes, err := open(n, pool)
			if f, is := s.(*file.Store); is && f.Created() {
				return slowMade{f}, notes, err
			}
			return s, notes, err
		}
	})
	doc := r.doc(hungDocument)
	for range 2 { // the first attempt is still under way at the second
		var hung *HungError
		if _, err := r.Apply(doc, Options{}); !errors.As(err, &hung) || !strings.Contains(err.Error(), "still being allocated") {
			t.Fatalf("%v, want that it is still being allocated", err)
		}
	}
	h.thaw()
	r.stores.calls.Wait()
	r.apply(doc)
	r.wantState(doc)
	n := doc.Subsystems[0].Namespaces[1]
	if s := r.stores.held[keyOf("a", n)].store.(*file.Store); s.Created() {
		t.Error("the file was made twice")
	}
	if _, noted := r.stores.known.read(n); !noted {
		t.Error("it is not noted that the file was there")
	}
}

// TestWaitsNoMore: a store that is opened late is closed if the namespace no longer waits.
func TestWaitsNoMore(t *testing.T) {
	t.Parallel()
	r, h := newHanging(t)
	if _, err := r.Apply(r.doc(hungDocument), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	r.apply(r.doc(strings.Replace(hungDocument, "hung", "a", 1)))
	h.thaw()
	path := filepath.Join(r.dir, "hung")
	r.await("it can be had", func() bool {
		s, _, err := OpenStore(&config.Namespace{File: &config.File{Path: config.Path(path), Size: 1 << 20}}, nil)
		return err == nil && s.Close() == nil
	})
}

// TestCloseWithHungStore: a target ends whatever hangs.
func TestCloseWithHungStore(t *testing.T) {
	t.Parallel()
	r, h := newHanging(t)
	if _, err := r.Apply(r.doc(hungDocument), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.Close() }() // ends with the test
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for it")
	}
	h.thaw()
	r.await("it goes", func() bool { _, err := os.Stat(filepath.Join(r.dir, "hung")); return err != nil })
}

// TestManyHungStores: of many stores that hang, only the first has the whole time limit.
func TestManyHungStores(t *testing.T) {
	t.Parallel()
	r, _ := newHanging(t)
	r.startTimeout = time.Second
	text := hungDocument
	for n := 3; n < 23; n++ {
		text += "      - nsid: " + itoa(n) + "\n        file:\n          path: DIR/hung" + itoa(n) + "\n          size: 1MiB\n"
	}
	began := time.Now()
	if _, err := r.Apply(r.doc(text), Options{Wait: true}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if n := len(r.Status().Waiting); n != 21 {
		t.Errorf("%d namespaces wait", n)
	}
}

// TestRemovedWhileHung: a store that is removed while another call for its file system hangs is closed when that
// has answered, and can then be opened again.
func TestRemovedWhileHung(t *testing.T) {
	r := newRig(t)
	n := r.doc(first).Subsystems[0].Namespaces[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.stores
	s.begin(time.Minute)
	if _, err := s.acquire("a", n); err != nil {
		t.Fatal(err)
	}
	hang := make(chan struct{})
	s.begin(time.Millisecond)
	for i, hung := range []error{
		s.ask(n.Path(), func() error { <-hang; return nil }), // is it at its path?
		func() error { s.release("a", n); return s.sweep() }(),
	} {
		if !errors.As(hung, new(*HungError)) {
			t.Errorf("%d: %v, want that it hangs", i, hung)
		}
	}
	if _, err := s.prepare("a", n); !errors.As(err, new(*HungError)) {
		t.Errorf("opened before it was closed: %v", err)
	}
	close(hang)
	s.calls.Wait()
	s.begin(time.Minute)
	if _, err := s.prepare("a", n); err != nil {
		t.Error(err)
	}
}
