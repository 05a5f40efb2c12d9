package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
)

// slow is a queue whose results arrive a millisecond after its owner begins to wait.
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

// tardy is a queue whose result arrives at a given time.
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

// TestPacedSleep: a load with a rate does not poll continuously for a request that takes a second, for example because
// its target is away, while other requests become due.
func TestPacedSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{queue: tardy{at: time.Now().Add(time.Second)}, flying: 1, group: &group{base: time.Now()}, pace: pace{on: true, waiting: []int{1}}}
		for idle := 0; r.poll(idle) == 0; idle++ {
			if idle > pollsBeforeSleep+int(time.Second/nap) { // time passes only while the load sleeps
				t.Fatal("it does not sleep")
			}
		}
	})
}

// TestOwnSleep: the time during which a load sleeps does not count as time that others had its processor.
func TestOwnSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runner{queue: new(slow), results: make([]backend.Result, 1), flying: 1, group: &group{base: time.Now()}}
		for range 100 {
			for idle := 0; r.poll(idle) == 0; idle++ {
				if idle > pollsBeforeWait {
					t.Fatal("it does not wait")
				}
			}
			if r.yield.Crowded() {
				t.Fatal("it holds its own sleep for somebody else's work")
			}
		}
	})
}
