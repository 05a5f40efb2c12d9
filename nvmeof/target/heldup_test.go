package target

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/capsule"
)

// TestHeldUp: a target that was stopped for so long that its hosts have sent their writes on other paths executes
// none of the old writes: neither in the turn that was interrupted, nor in the next one, nor those that waited for
// room in the store. It continues with hosts that are still connected.
func TestHeldUp(t *testing.T) {
	const kato = 2000
	for _, test := range []struct {
		name    string
		held    time.Duration
		within  bool          // in the turn in which the write would be submitted to the store
		waiting bool          // for room in the store, before the stop
		silent  time.Duration // the host, before the stop
		want    int           // writes that the store gets
	}{
		{"in a turn, shortly", 3 * time.Second, true, false, 0, 1},
		{"in a turn, for long", 7 * time.Second, true, false, 0, 0},
		{"before a turn, shortly", 3 * time.Second, false, false, 0, 1},
		{"before a turn, for long", 7 * time.Second, false, false, 0, 0},
		{"waiting, shortly", 3 * time.Second, false, true, 0, 2},
		{"waiting, for long", 7 * time.Second, false, true, 0, 1},
		{"waiting, in the grace of the keep alive timer", 3 * time.Second, false, true, 4500 * time.Millisecond, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				s := newFakeStore(1 << 20)
				f.export(s)
				admin, id := f.connectAdmin(kato)
				io := f.connectIO(id, 1, 1)
				io.identify(2)
				if test.waiting {
					s.mu.Lock()
					s.room = 1
					s.mu.Unlock()
					s.set(true, nil)
					io.start(writeOf(2))
					io.start(writeOf(2))
					synctest.Wait()
				}
				time.Sleep(test.silent)
				if test.silent > 0 { // the shard of the admin queue is stopped too, and goes on last
					go func() { _ = admin.q.shard.Call(func() { time.Sleep(test.held + 50*time.Millisecond) }) }() // ends with the sleep
				}
				io.call(func() {
					if test.within {
						c := writeOf(2)
						c.h, c.response = io, make(chan response, 1)
						c.sqe.Flags |= capsule.FlagsSGL
						c.index, io.vacant = io.vacant[0], io.vacant[1:]
						io.active[c.index] = c
						io.q.take(c, &c.sqe, c.index)
					}
					time.Sleep(test.held)
				})
				if !test.within && !test.waiting {
					io.offer(writeOf(2))
				}
				s.set(false, nil)
				time.Sleep(100 * time.Millisecond)
				if n := writesOf(s); n != test.want {
					t.Errorf("the store has got %d writes, want %d", n, test.want)
				}
				ended := false
				select {
				case <-admin.closed:
					ended = true
				default:
				}
				if ended != (test.silent+test.held > 5*time.Second) {
					t.Errorf("the association has ended: %t", ended)
				}
				f.close2(t)
			})
		})
	}
}

func writesOf(s *fakeStore) (n int) {
	for _, r := range s.ops() {
		if r.Op == backend.OpWrite {
			n++
		}
	}
	return n
}

// TestAsleep: a target whose machine has slept, while the monotonic clock was stopped, executes none of the writes
// that its hosts have sent on other paths meanwhile.
func TestAsleep(t *testing.T) {
	for slept, want := range map[time.Duration]int{3 * time.Second: 1, 7 * time.Second: 0} {
		t.Run(slept.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				asleep := new(atomic.Int64)
				f.target.slept = func() time.Duration { return time.Duration(asleep.Load()) }
				s := newFakeStore(1 << 20)
				f.export(s)
				admin, id := f.connectAdmin(2000)
				io := f.connectIO(id, 1, 1)
				io.identify(2)
				io.call(func() {
					asleep.Store(int64(slept))
					io.q.worker.endExpired() // as the shard does when the wall clock has advanced
				})
				if want > 0 {
					io.offer(writeOf(2))
				}
				time.Sleep(100 * time.Millisecond)
				if n := len(s.ops()); n != want {
					t.Errorf("the store has got %d writes, want %d", n, want)
				}
				select {
				case <-admin.closed:
					if want > 0 {
						t.Error("the association has ended")
					}
				default:
					if want == 0 {
						t.Error("the association goes on")
					}
				}
				f.close2(t)
			})
		})
	}
}
