package processors

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// queueBehindWakers gives all threads of the program the policy SCHED_BATCH (sched(7)), with which a thread does not
// preempt the thread that wakes it. It is used on a machine with one processor. There the waking thread is rdma_rxe's
// worker or similar, which would otherwise be preempted after the first of several packets, and resumed after each.
// Threads inherit the policy. A thread that does not have it yet may be starting another one, so all are examined
// until none is left. A different policy set by an administrator is kept.
func queueBehindWakers() {
	for more := true; more; {
		more = false
		threads, _ := os.ReadDir("/proc/self/task") // on an error nothing changes
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil && makeBatch(id) {
				more = true
			}
		}
	}
}

// makeBatch reports whether it changed a thread's policy from normal to batch. A sandbox may forbid that, which only
// costs speed.
func makeBatch(thread int) bool {
	a, err := unix.SchedGetAttr(thread, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL {
		return false
	}
	a.Policy = unix.SCHED_BATCH
	return unix.SchedSetAttr(thread, a, 0) == nil
}
