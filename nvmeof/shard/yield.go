package shard

import (
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// idleWeight is how much more a turn counts that found nothing to do.
	idleWeight = 16
	// yieldAt is 64 idle turns or 1024 useful ones.
	yieldAt = 1024
	// spareYields is how many yields to the kernel come before one to the Go
	// scheduler where GOMAXPROCS exceeds the number of CPUs, as it does where whoever
	// started the loops left a processor for the rest of the program. A yield to Go
	// then wakes a thread, by an interrupt to a CPU that polls, and costs more than
	// all else in a turn.
	spareYields = 64
)

// A Yielder lets others run while a loop polls. The zero value is ready.
type Yielder struct {
	weight uint32 // of the turns since the last yield
	yields uint32 // to the kernel, since the last to the Go scheduler
	every  uint32
}

// Turn is called after each turn of the loop.
func (y *Yielder) Turn(useful bool) {
	y.weight++
	if !useful {
		y.weight += idleWeight - 1
	}
	if y.weight >= yieldAt {
		y.yield()
	}
}

func (y *Yielder) yield() {
	if y.every == 0 {
		y.every = 1
		if runtime.GOMAXPROCS(0) > runtime.NumCPU() {
			y.every = spareYields
		}
	}
	y.weight = 0
	// Loops may hold every processor of the Go scheduler's, and other goroutines,
	// timers and the network poller wait for them.
	if y.yields++; y.yields >= y.every {
		y.yields = 0
		runtime.Gosched()
	}
	// Without this a spinning loop keeps its CPU for a whole time slice of the
	// kernel's, milliseconds, from the very thread that it waits for. It returns
	// at once.
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
