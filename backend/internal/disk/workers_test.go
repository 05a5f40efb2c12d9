package disk

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// TestWorkersAreLimited: however many disks do not answer, their calls occupy no more threads than the limit and one for
// each disk, and each disk gets on. Those beyond that take turns.
func TestWorkersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, disks, each = 10, 8, 40
		w := NewWorkers(limit)
		answer := make([]chan bool, disks)
		inKernel := make([]int, disks)
		sum := func() (n int) {
			for _, k := range inKernel {
				n += k
			}
			return n
		}
		calls := make(chan func())
		go func() { // ends with the test: it is the kernel, in which one call at a time is counted
			for f := range calls {
				f()
			}
		}()
		for i := range disks {
			s := &share{workers: w}
			answer[i] = make(chan bool)
			for range each {
				go func() { // ends when the disk has answered each call
					beyond := s.begin()
					calls <- func() { inKernel[i]++ }
					<-answer[i]
					calls <- func() { inKernel[i]-- }
					s.end(beyond)
				}()
			}
			synctest.Wait()
		}
		if n := sum(); n != limit+disks { // the first disk takes all within the limit
			t.Errorf("%d calls are in the kernel: %v", n, inKernel)
		}
		for range 2 * limit { // the first disk answers: the others take their turns
			answer[0] <- true
			synctest.Wait()
		}
		if n := sum(); n != limit+disks {
			t.Errorf("%d calls are in the kernel: %v", n, inKernel)
		}
		if others := inKernel[1:]; slices.Min(others) < 2 || slices.Max(others) > 3 {
			t.Errorf("the disks do not take turns: %v", inKernel)
		}
		for i := range disks {
			close(answer[i])
		}
		synctest.Wait()
		if sum() != 0 || w.busy != 0 || len(w.waiting) > 0 {
			t.Errorf("at the end: %v in the kernel, %d busy", inKernel, w.busy)
		}
		close(calls)
	})
}

// TestQueueWaitsForWorkers: without a worker a call waits, and so does a copy.
func TestQueueWaitsForWorkers(t *testing.T) {
	w := NewWorkers(1)
	d := openDisk(t, Config{Options: Options{Engine: EngineThreads, Workers: w}, Info: backend.Info{
		Size: 4 << 20, BlockSize: 4096, Alignment: 1, Volatile: true, Copy: true,
	}})
	defer d.Close()
	q, err := d.NewQueue(8, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	other := &share{workers: w}
	within, beyond := other.begin(), d.share.begin()
	if within || !beyond {
		t.Fatalf("beyond the limit: %v, %v", within, beyond)
	}
	requests := []backend.Request{
		{Op: backend.OpWrite, Length: 4096, Buf: backendtest.Buffer(4096, 4096)},
		{Op: backend.OpCopy, From: 1 << 20, Offset: 2 << 20, Length: 4096},
		{Op: backend.OpFlush},
	}
	q.Submit(requests)
	waiting := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(d.share.calls)
	}
	for waiting() < len(requests) {
		time.Sleep(time.Millisecond)
	}
	var got [4]backend.Result
	if n := q.Poll(got[:]); n != 0 {
		t.Errorf("%d requests are done without a worker: %v", n, got[:n])
	}
	d.share.end(true)
	for n := 0; n < len(requests); {
		k := q.Poll(got[:])
		for _, r := range got[:k] {
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
		if n += k; k == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	other.end(false)
}

// TestCopiesAreLimited: a disk has no more copies in the kernel than Options.Threads, whatever its queues.
func TestCopiesAreLimited(t *testing.T) {
	w := NewWorkers(100)
	d := openDisk(t, Config{Options: Options{Engine: EngineThreads, Threads: 2, Workers: w}, Info: backend.Info{
		Size: 64 << 20, BlockSize: 4096, Alignment: 1, Volatile: true, Copy: true,
	}})
	defer d.Close()
	q, err := d.NewQueue(32, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.copying <- struct{}{} // one copy does not end
	d.copying <- struct{}{}
	for i := range int64(16) {
		q.Submit([]backend.Request{{Op: backend.OpCopy, From: i << 21, Offset: 32<<20 + i<<21, Length: 4096}})
	}
	time.Sleep(time.Millisecond)
	w.mu.Lock()
	busy := w.busy
	w.mu.Unlock()
	if busy != 0 {
		t.Errorf("%d copies occupy threads beside two that do not end", busy)
	}
	closed := make(chan error)
	go func() { closed <- q.Close() }() // ends when the copies have ended
	<-d.copying
	<-d.copying
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestThreadLimit: the limit is that of the control group, or of one above it.
func TestThreadLimit(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &l); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		root fstest.MapFS
		want int
	}{
		{fstest.MapFS{}, 5000},
		{fstest.MapFS{"proc/self/cgroup": file("0::/\n")}, 5000},
		{fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/pids.max": file("600\n")}, 300},
		{fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/pids.max": file("max\n"), "sys/fs/cgroup/a/pids.max": file("100\n")}, 50},
		{fstest.MapFS{"proc/self/cgroup": file("9:name=systemd:/x\n8:pids:/a\n0::/\n"), "sys/fs/cgroup/pids/a/pids.max": file("4\n")}, 2},
		{fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/pids.max": file("99999\n")}, 5000},
	} {
		want := test.want
		if unix.Geteuid() != 0 {
			want = min(want, int(min(l.Cur, goThreads)/2))
		}
		if got := ThreadLimit(test.root); got != want {
			t.Errorf("%v: %d, want %d", fmt.Sprint(test.root), got, want)
		}
	}
}
