package processors

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// queueBehindWakers has the kernel let no thread of the program take the
// processor from one that wakes it (SCHED_BATCH, sched(7)). It is for a machine with one
// processor: there the other is rdma_rxe's worker, or another of those that make our work,
// which would be sent away at the first packet of several, and taken up again after each.
// Threads inherit that; one for which it is not set yet may be starting another, so all are
// looked at until nobody is left. An administrator's choice of another policy stays.
func queueBehindWakers() {
	for more := true; more; {
		more = false
		threads, _ := os.ReadDir("/proc/self/task") // without it all stays as it is
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil && makeBatch(id) {
				more = true
			}
		}
	}
}

// makeBatch reports whether the thread was an ordinary one, and is not any more. A sandbox
// may forbid that, which costs speed only.
func makeBatch(thread int) bool {
	a, err := unix.SchedGetAttr(thread, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL {
		return false
	}
	a.Policy = unix.SCHED_BATCH
	return unix.SchedSetAttr(thread, a, 0) == nil
}
