package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// TestTimerSetAfterASleep: a function that wakes the loop from a long sleep sets
// a timer, which counts from then.
func TestTimerSetAfterASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShard(t, Config{Polling: nvmeof.PollNever})
		s.Start()
		time.Sleep(time.Minute)
		began := time.Now()
		fired := make(chan time.Duration, 1)
		timer := Timer{Func: func() { fired <- time.Since(began) }}
		if err := s.Call(func() { s.SetTimer(&timer, time.Second) }); err != nil {
			t.Fatal(err)
		}
		if d := <-fired; d < time.Second || d > time.Second+10*time.Millisecond {
			t.Errorf("a timer of 1 s fired after %v", d)
		}
	})
}

// TestMachineHasSlept: the loop notices that the machine has slept, in which the monotonic clock stands still.
func TestMachineHasSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShard(t, Config{Polling: nvmeof.PollNever})
		noticed := 0
		s.OnHeldUp(func() { noticed++ })
		s.Start()
		for _, c := range []struct {
			slept time.Duration
			want  int
		}{{0, 0}, {heldUp, 0}, {heldUp + time.Nanosecond, 1}} {
			want := c.want
			if err := s.Call(func() { s.wall, noticed = s.wall.Add(-c.slept), 0 }); err != nil {
				t.Fatal(err)
			}
			if err := s.Call(func() {
				if noticed != want {
					t.Errorf("asleep for %v: noticed %d times, want %d", c.slept, noticed, want)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
