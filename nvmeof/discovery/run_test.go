package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A fabric is a set of fake controllers, by endpoint with the content of their logs.
type fabric struct {
	mu       sync.Mutex
	logs     map[Endpoint]string // absent: no controller
	sessions map[*fakeSession]bool
	dials    int
}

type fakeSession struct {
	fabric *fabric
	at     Endpoint
	stay   bool
	notify func()
	done   chan struct{}
}

var errNobody = errors.New("nobody is there")

func (f *fabric) Dial(ctx context.Context, at Endpoint, stay bool, notify func()) (Session, error) {
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials++
	if _, ok := f.logs[at]; !ok {
		return nil, errNobody
	}
	s := &fakeSession{f, at, stay, notify, make(chan struct{})}
	f.sessions[s] = true
	return s, nil
}

func (s *fakeSession) Log(ctx context.Context) (Log, error) {
	s.fabric.mu.Lock()
	text, ok := s.fabric.logs[s.at]
	s.fabric.mu.Unlock()
	if text == "silent" {
		<-ctx.Done()
		return Log{}, ctx.Err()
	}
	if !ok {
		return Log{}, errNobody
	}
	return Log{Entries: entries(text)}, nil
}

func (s *fakeSession) Name() nvmeof.NQN      { return nvmeof.DiscoveryNQN }
func (s *fakeSession) Notices() bool         { return true }
func (s *fakeSession) Done() <-chan struct{} { return s.done }
func (s *fakeSession) Err() error            { return errNobody }

func (s *fakeSession) Close() error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	delete(s.fabric.sessions, s)
	return nil
}

// set changes a log, and notifies the connected sessions; "" ends the controller.
func (f *fabric) set(n int, words string) {
	f.mu.Lock()
	var reported []*fakeSession
	for s := range f.sessions {
		if s.at == at(n) {
			reported = append(reported, s)
		}
	}
	if words == "" {
		delete(f.logs, at(n))
	} else {
		f.logs[at(n)] = words
	}
	f.mu.Unlock()
	for _, s := range reported {
		if words == "" {
			close(s.done)
		} else {
			s.notify()
		}
	}
}

// A watch is a Run in progress.
type watch struct {
	*testing.T
	fabric *fabric
	mu     sync.Mutex
	seen   []string
	cancel context.CancelFunc
	ended  chan error
}

func (w *watch) event(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind != Logged {
		w.seen = append(w.seen, brief(e))
	}
}

func watchFabric(t *testing.T, c Config, f *fabric, seeds ...Endpoint) *watch {
	w := &watch{T: t, fabric: f, ended: make(chan error, 1)}
	c.Event = w.event
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	go func() { w.ended <- Run(ctx, c, f, seeds...) }()
	return w
}

func (w *watch) take(d time.Duration) []string {
	time.Sleep(d)
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

// after requires exactly these events; those caused by several controllers have no order.
func (w *watch) after(d time.Duration, want ...string) {
	w.Helper()
	seen := w.take(d)
	slices.Sort(seen)
	slices.Sort(want)
	if strings.Join(seen, ", ") != strings.Join(want, ", ") {
		w.Errorf("seen %s\nwant %s", strings.Join(seen, ", "), strings.Join(want, ", "))
	}
}

// end requires that everything is closed.
func (w *watch) end() {
	w.Helper()
	w.cancel()
	if err := <-w.ended; err != nil {
		w.Errorf("Run: %v", err)
	}
	if n := len(w.fabric.sessions); n != 0 {
		w.Errorf("%d sessions are open", n)
	}
}

func newFabric(logs map[int]string) *fabric {
	f := &fabric{logs: map[Endpoint]string{}, sessions: map[*fakeSession]bool{}}
	for n, words := range logs {
		f.logs[at(n)] = words
	}
	return f
}

func TestRunPersistent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFabric(t, Config{Persistent: true}, newFabric(map[int]string{1: "a@1 >2 >3", 2: "b@2 >1"}), at(1))
		w.after(time.Second/2, "added a@1", "added b@2", "unreachable 3 (nobody is there) 1s")
		w.fabric.set(2, "b@2 c@2")
		w.after(time.Second/4, "added c@2")
		w.fabric.set(3, "d@3")
		w.after(time.Second, "added d@3")
		w.fabric.set(2, "")
		w.after(4*time.Second, "unreachable 2 (nobody is there) 1s", "unreachable 2 (nobody is there) 2s", "unreachable 2 (nobody is there) 4s")
		w.fabric.set(2, "c@2")
		w.after(5*time.Second, "removed b@2")
		w.fabric.set(1, "a@1 >2")
		w.after(time.Second, "removed d@3")
		if n := len(w.fabric.sessions); n != 2 {
			t.Errorf("%d sessions, want 2", n)
		}
		w.end()
	})
}

// TestRunOnce: unreachable controllers are tried twice, and their errors are returned.
func TestRunOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(map[int]string{1: "a@1 >2 >3", 2: "b@2 >1"})
		w := watchFabric(t, Config{}, f, at(1))
		err := <-w.ended
		if !errors.Is(err, errNobody) || !strings.Contains(fmt.Sprint(err), "192.0.2.3:4420") {
			t.Errorf("Run: %v", err)
		}
		w.after(0, "added a@1", "added b@2", "unreachable 3 (nobody is there) 1s", "unreachable 3 (nobody is there) 0s")
		if f.dials != 4 || len(f.sessions) != 0 {
			t.Errorf("%d dials, %d sessions", f.dials, len(f.sessions))
		}
		w = watchFabric(t, Config{}, f, at(2))
		w.cancel()
		if err := <-w.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled Run: %v", err)
		}
	})
}

// TestRunSilent: a controller that does not respond is given up.
func TestRunSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchFabric(t, Config{Persistent: true, Timeout: 5 * time.Second}, newFabric(map[int]string{1: "silent", 2: "a@2"}), at(1), at(2))
		w.after(5*time.Second+500*time.Millisecond, "added a@2", "unreachable 1 (context deadline exceeded) 1s")
		w.fabric.set(1, "b@1")
		w.after(time.Second, "added b@1")
		w.fabric.set(1, "silent")
		w.after(6*time.Second, "unreachable 1 (context deadline exceeded) 1s")
		w.end()
	})
}

// afterOnly requires events with this beginning, and no others.
func (w *watch) afterOnly(d time.Duration, prefix string) {
	w.Helper()
	seen := w.take(d)
	for _, s := range seen {
		if !strings.HasPrefix(s, prefix) {
			w.Errorf("seen %s, want only %s...", s, prefix)
		}
	}
	if len(seen) == 0 {
		w.Errorf("seen nothing, want %s...", prefix)
	}
}

// afterLast requires the last event to be this one.
func (w *watch) afterLast(d time.Duration, want string) {
	w.Helper()
	if seen := w.take(d); len(seen) == 0 || seen[len(seen)-1] != want {
		w.Errorf("seen %s, want %s at the end", strings.Join(seen, ", "), want)
	}
}

// TestRunNobody: without a Dialer, Run returns an error.
func TestRunNobody(t *testing.T) {
	if err := Run(t.Context(), Config{}, nil, Endpoint{}); err == nil || !strings.Contains(err.Error(), "Dialer is missing") {
		t.Errorf("%v", err)
	}
}
