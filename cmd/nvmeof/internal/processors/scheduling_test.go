package processors

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestQueueBehindWakers, in a process of its own: all its threads, and those that come
// later, are batch threads, and its niceness stays.
func TestQueueBehindWakers(t *testing.T) {
	if os.Getenv("NVMEOF_TEST_BATCH") == "" {
		// Of a process that runs tests coverage is counted only where this says so.
		counts := "-test.gocoverdir=" + os.Getenv("GOCOVERDIR")
		cmd := exec.Command(os.Args[0], "-test.run=^TestQueueBehindWakers$", "-test.v", counts)
		cmd.Env = append(os.Environ(), "NVMEOF_TEST_BATCH=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Skip("the kernel does not report the policy:  ", err)
	}
	queueBehindWakers()
	done := make(chan struct{})
	defer close(done)
	for range 4 { // new threads
		started := make(chan struct{})
		go func() { runtime.LockOSThread(); close(started); <-done }()
		<-started
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		if a, err := unix.SchedGetAttr(id, 0); err != nil || a.Policy != unix.SCHED_BATCH || a.Nice != before.Nice {
			t.Errorf("thread %d of %d: %+v, %v", id, len(threads), a, err)
		}
	}
}
