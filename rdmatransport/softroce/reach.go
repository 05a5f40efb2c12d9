package softroce

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A reach tells who deregisters memory whether a shard may be reading or writing any, which it
// does between begin and end. The shard's owner calls those, anybody calls wait.
type reach struct {
	n atomic.Uint64 // times that it began and ended: odd in between
}

func (r *reach) begin() { r.n.Store(r.n.Load() + 1) }
func (r *reach) end()   { r.n.Store(r.n.Load() + 1) }

// reachYields is how often wait looks before it sleeps: what the shard does takes microseconds,
// where it is not held up.
const reachYields = 100

// wait returns when what had begun before has ended. What begins afterwards finds the tables of keys
// as they were before the call, or newer. The owner may call it, but not in between.
func (r *reach) wait() {
	seen := r.n.Load()
	if seen&1 == 0 {
		return
	}
	for i := 0; r.n.Load() == seen; i++ {
		if i < reachYields {
			runtime.Gosched()
		} else {
			time.Sleep(20 * time.Microsecond)
		}
	}
}
