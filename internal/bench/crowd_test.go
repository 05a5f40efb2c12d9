package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// slow is a queue whose results come a millisecond after somebody waits for them.
type slow struct {
	backend.Queue
	has bool
}

func (q *slow) Wait() error {
	time.Sleep(time.Millisecond)
	q.has = true
	return nil
}

func (q *slow) Poll(rs []backend.Result) int {
	if !q.has {
		return 0
	}
	q.has = false
	return 1
}

// TestOwnSleep: what a load sleeps is not what others have of its processor.
func TestOwnSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{queue: new(slow), results: make([]backend.Result, 1), flying: 1, group: &group{base: time.Now()}}
		for range 100 {
			for idle := 0; r.poll(idle) == 0; idle++ {
				if idle > restless {
					t.Fatal("it does not wait")
				}
			}
			if r.yield.Crowded() {
				t.Fatal("it holds its own sleep for somebody else's work")
			}
		}
	})
}
