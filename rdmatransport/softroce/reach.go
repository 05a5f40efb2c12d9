package softroce

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A reach tells Deregister whether a shard may be accessing memory, which it does between begin and end. Only the
// shard's owner calls begin and end; any goroutine may call wait.
type reach struct {
	n atomic.Uint64 // number of calls of begin and end; odd in between
}

func (r *reach) begin() { r.n.Store(r.n.Load() + 1) }
func (r *reach) end()   { r.n.Store(r.n.Load() + 1) }

// reachYields is how often wait checks before it sleeps: a shard takes microseconds unless it is descheduled.
const reachYields = 100

// wait waits for the end of the current access, if any. A later access sees the key tables as they were when wait was
// called, or newer. The owner may call it too, but not between begin and end.
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
