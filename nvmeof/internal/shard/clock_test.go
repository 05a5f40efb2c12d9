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
