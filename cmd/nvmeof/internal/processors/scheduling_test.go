package processors

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestQueueBehindWakers, in a process of its own, checks that all its threads, including later ones, get SCHED_BATCH,
// and that its nice value stays.
func TestQueueBehindWakers(t *testing.T) {
	if os.Getenv("NVMEOF_TEST_BATCH") == "" {
		// Coverage of the process that runs the tests is only counted with this flag.
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
