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

// tardy is a queue whose result comes at a time.
type tardy struct {
	backend.Queue
	at time.Time
}

func (q tardy) Poll([]backend.Result) int {
	if time.Now().Before(q.at) {
		return 0
	}
	return 1
}

// TestPacedSleep: a load with a rate does not poll without end for what takes a second, as where its target is
// away, while other requests are due.
func TestPacedSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{queue: tardy{at: time.Now().Add(time.Second)}, flying: 1, group: &group{base: time.Now()}, pace: pace{on: true, waiting: []int{1}}}
		for idle := 0; r.poll(idle) == 0; idle++ {
			if idle > stubborn+int(time.Second/nap) { // here no time passes but in a sleep
				t.Fatal("it does not sleep")
			}
		}
	})
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
