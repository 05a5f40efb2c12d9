package multipath

import (
	"errors"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/host"
	"github.com/nvmeof-go/nvmeof/nvmeof/target"
)

// await publishes the namespace on a target without its store.
func (s *side) await() {
	s.l.must(s.sub.AwaitNamespace(target.NamespaceConfig{NSID: 1, UUID: s.uuid}))
}

// TestStoreAway: while the target does not have the store, requests wait as they do without a path, after a change of
// the target and after a restart without the store.
func TestStoreAway(t *testing.T) {
	for name, away := range map[string]func(*lab, *Subsystem){
		"change": func(l *lab, _ *Subsystem) { l.must(l.sides[0].sub.SuspendNamespace(1)) },
		"restart": func(l *lab, s *Subsystem) {
			l.sides[0].kill()
			l.await(s.Paths()[0], StateLost)
			l.sides[0].empty = true
			l.sides[0].revive()
			l.sides[0].await()
			l.await(s.Paths()[0], StateLive)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := newLab(t, 1)
				s := l.connect(l.config())
				n := l.namespace(s)
				if a, b := writeBoth(t, n, 0); a != nil || b != nil {
					t.Fatalf("%v, %v", a, b)
				}
				away(l, s)
				time.Sleep(time.Second)
				done := make(chan struct{})
				go func() {
					defer close(done)
					if a, b := writeBoth(t, n, 512); a != nil || b != nil {
						t.Errorf("who writes gets %v, %v", a, b)
					}
				}()
				time.Sleep(10 * time.Second)
				select {
				case <-done:
					t.Error("something is written where the store is away")
				default:
				}
				l.sides[0].export()
				<-done
			})
		})
	}
}

// TestStoreIsNotThereYet: opening a namespace whose store is not available fails with ErrNotReady.
func TestStoreIsNotThereYet(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		s := l.connect(l.config())
		l.must(l.sides[0].sub.RemoveNamespace(1))
		if _, err := s.Namespace(t.Context(), 1); !errors.Is(err, host.ErrRemoved) {
			t.Errorf("of a namespace that is not there: %v", err)
		}
		l.sides[0].await()
		if _, err := s.Namespace(t.Context(), 1); !errors.Is(err, host.ErrNotReady) || errors.Is(err, host.ErrRemoved) {
			t.Errorf("of one that waits: %v", err)
		}
		l.sides[0].export()
		l.namespace(s)
	})
}

// TestStoreAwayLater: how long requests wait is counted from when the store became unavailable, not from when the path
// connected, even if that was longer ago.
func TestStoreAwayLater(t *testing.T) {
	const timeout = 20 * time.Second
	inBubble(t, func(t *testing.T) {
		l := newLab(t, 1)
		c := l.config()
		c.Paths[0].Timers.CtrlLossTmo = timeout
		n := l.namespace(l.connect(c))
		time.Sleep(2 * timeout)
		l.must(l.sides[0].sub.SuspendNamespace(1))
		time.Sleep(time.Second) // the host has noticed
		back := time.AfterFunc(timeout/2, l.sides[0].export)
		defer back.Stop()
		if a, b := writeBoth(t, n, 0); a != nil || b != nil {
			t.Errorf("who writes gets %v, %v", a, b)
		}
		l.must(l.sides[0].sub.SuspendNamespace(1))
		began := time.Now()
		a, b := writeBoth(t, n, 0)
		if took := time.Since(began); !errors.Is(a, host.ErrNotReady) || !errors.Is(b, host.ErrNotReady) || took < timeout || took > 2*timeout {
			t.Errorf("after %v who writes gets %v, %v", took, a, b)
		}
		l.sides[0].export()
	})
}
