package uring

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newRing opens a ring on a new file, or skips the test if the kernel does not support it.
func newRing(t testing.TB, entries int, locked bool) (*Ring, *os.File) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "file"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r, err := New(Config{Entries: entries, File: int(f.Fd()), LockedThread: locked})
	if errors.Is(err, ErrUnsupported) || errors.Is(err, unix.ENOMEM) {
		t.Skip(err) // nothing to test without the kernel's support, or the memory it wants
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r, f
}

// both runs a test in both thread modes, on a goroutine locked to its thread.
func both(t *testing.T, run func(t *testing.T, locked bool)) {
	for _, locked := range []bool{false, true} {
		name := map[bool]string{false: "any thread", true: "locked thread"}[locked]
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			run(t, locked)
		})
	}
}

// finish submits and waits for n completions, by user data.
func finish(t testing.TB, r *Ring, n int) map[uint64]int32 {
	t.Helper()
	if err := r.Submit(); err != nil {
		t.Fatalf("Submit: %v", err)
	}
	got := map[uint64]int32{}
	var cs [3]Completion
	for len(got) < n {
		if err := r.Wait(); err != nil {
			t.Fatalf("Wait: %v", err)
		}
		for _, c := range cs[:r.Reap(cs[:])] {
			if _, twice := got[c.UserData]; twice {
				t.Fatalf("operation %d completed twice", c.UserData)
			}
			got[c.UserData] = c.Result
		}
	}
	return got
}

func TestOperations(t *testing.T) {
	both(t, func(t *testing.T, locked bool) {
		r, f := newRing(t, 8, locked)
		data := bytes.Repeat([]byte("io_uring"), 1024)
		if !r.Write(data, 4096, unix.RWF_DSYNC, 1) {
			t.Fatal("no room for a write")
		}
		if got := finish(t, r, 1); got[1] != int32(len(data)) {
			t.Fatalf("write: result %d", got[1])
		}
		b := make([]byte, len(data)+100)
		r.Read(b, 4096, 2)
		r.Fdatasync(3)
		r.Fallocate(0, 1<<20, 4096, 4)
		r.Read(b[:0], 1<<30, 5)
		r.Nop(6)
		got := finish(t, r, 5)
		for tag, want := range map[uint64]int32{2: int32(len(data)), 3: 0, 4: 0, 5: 0, 6: 0} {
			if got[tag] != want {
				t.Errorf("operation %d: result %d, want %d", tag, got[tag], want)
			}
		}
		if !bytes.Equal(b[:len(data)], data) {
			t.Error("read something else than written")
		}
		if st, err := f.Stat(); err != nil || st.Size() != 1<<20+4096 {
			t.Errorf("size after fallocate: %d, %v", st.Size(), err)
		}
	})
}

func TestErrorsAreResults(t *testing.T) {
	both(t, func(t *testing.T, locked bool) {
		r, _ := newRing(t, 4, locked)
		r.Read(make([]byte, 10), -5, 1)
		r.Fallocate(0xffff, 0, 4096, 2)
		r.Nop(3) // what follows a failed operation is executed
		got := finish(t, r, 3)
		if got[1] != -int32(unix.EINVAL) || got[2] >= 0 || got[3] != 0 {
			t.Errorf("results %v", got)
		}
	})
}

func TestFull(t *testing.T) {
	both(t, func(t *testing.T, locked bool) {
		r, _ := newRing(t, 4, locked)
		for round := range 5 {
			n := uint64(0)
			for r.Nop(n) {
				n++
			}
			if n != 4 {
				t.Fatalf("round %d: %d entries prepared, want 4", round, n)
			}
			if r.Read(nil, 0, 9) || r.Write(nil, 0, 0, 9) || r.Fdatasync(9) || r.Fallocate(0, 0, 1, 9) {
				t.Fatal("prepared an entry in a full ring")
			}
			finish(t, r, 4)
		}
		var cs [1]Completion
		if n := r.Reap(cs[:]); n != 0 {
			t.Errorf("%d completions too many", n)
		}
		if err := r.Submit(); err != nil {
			t.Errorf("Submit of nothing: %v", err)
		}
	})
}

func TestWithdraw(t *testing.T) {
	r, _ := newRing(t, 4, false)
	finishNop := func(tag uint64) {
		r.Nop(tag)
		if got := finish(t, r, 1); len(got) != 1 || got[tag] != 0 {
			t.Errorf("got %v, want operation %d", got, tag)
		}
	}
	finishNop(1)
	r.Nop(2)
	r.Nop(3)
	var tags []uint64
	r.Withdraw(func(tag uint64) { tags = append(tags, tag) })
	if len(tags) != 2 || tags[0] != 2 || tags[1] != 3 {
		t.Errorf("withdrew %v, want 2 and 3", tags)
	}
	finishNop(4)
}

// The other thread is notified, and nothing that it prepared is lost.
func TestLockedThreadIsEnforced(t *testing.T) {
	runtime.LockOSThread()
	r, _ := newRing(t, 4, true)
	if !r.deferred {
		t.Skip("kernel older than 6.1: any thread may submit")
	}
	r.Nop(1)
	finish(t, r, 1)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // so a thread of its own
		r.Nop(2)
		failed <- r.Submit()
	}()
	if err := <-failed; !errors.Is(err, unix.EEXIST) {
		t.Errorf("Submit on another thread: %v, want %v", err, unix.EEXIST)
	}
	if got := finish(t, r, 1); got[2] != 0 {
		t.Errorf("got %v, want operation 2", got)
	}
}

// Pending completions of a ring's own thread do not end a Wait on another thread, and do not make it spin.
func TestWaitOnOtherThread(t *testing.T) {
	runtime.LockOSThread()
	r, _ := newRing(t, 4, true)
	if !r.deferred {
		t.Skip("kernel older than 6.1: any thread may wait")
	}
	r.Fdatasync(1)
	if err := r.Submit(); err != nil {
		t.Fatal(err)
	}
	for !r.ready() { // the kernel's worker has done it, and left the completion to this thread
		time.Sleep(time.Millisecond)
	}
	if *r.cqHead != *r.cqTail {
		t.Skip("the completion is there already")
	}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		failed <- r.Wait()
	}()
	if err := <-failed; !errors.Is(err, unix.EEXIST) {
		t.Errorf("Wait on another thread: %v, want %v", err, unix.EEXIST)
	}
	if got := finish(t, r, 1); got[1] != 0 {
		t.Errorf("got %v, want the sync", got)
	}
}

// Armed, the eventfd signals a completion; disarmed, it does not.
func TestEvent(t *testing.T) {
	both(t, func(t *testing.T, locked bool) {
		r, _ := newRing(t, 4, locked)
		wait := func(timeout time.Duration) bool {
			t.Helper()
			fds := []unix.PollFd{{Fd: int32(r.Event()), Events: unix.POLLIN}}
			for {
				n, err := unix.Poll(fds, int(timeout.Milliseconds()))
				if err != unix.EINTR {
					return n == 1
				}
			}
		}
		var count [8]byte
		for range 3 {
			// A sync is executed by another kernel thread, so it is not done when Submit returns. The kernel's flag
			// that it has work for this thread may outlive that work.
			for until := time.Now().Add(5 * time.Second); !r.Arm(); {
				if n := r.Reap(make([]Completion, 3)); n > 0 || time.Now().After(until) {
					t.Fatalf("idle ring has something to reap: %d", n)
				}
			}
			r.Fdatasync(1)
			if err := r.Submit(); err != nil {
				t.Fatal(err)
			}
			if !wait(5 * time.Second) {
				t.Fatal("no event")
			}
			// The kernel checks whether the eventfd is armed after it has posted a completion, so the event of the
			// previous completion, which was reaped while disarmed, may arrive now.
			for r.Arm() {
				unix.Read(r.Event(), count[:])
				if r.Arm() && !wait(5*time.Second) {
					t.Fatal("Arm does not report what is to be reaped")
				}
			}
			if got := finish(t, r, 1); got[1] != 0 {
				t.Fatalf("sync: %d", got[1])
			}
			r.Disarm()
			unix.Read(r.Event(), count[:])
			r.Fdatasync(2)
			finish(t, r, 1)
			if wait(0) {
				t.Error("event while disarmed")
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, entries := range []int{-1, 0, 16385, 1 << 40} {
		if _, err := New(Config{Entries: entries}); err == nil {
			t.Errorf("New took %d entries", entries)
		}
	}
	newRing(t, 1, false) // skips the rest where there is no io_uring
	before := openFiles(t)
	if _, err := New(Config{Entries: 4, File: 1 << 20}); !errors.Is(err, unix.EBADF) {
		t.Errorf("New over a bad descriptor: %v, want %v", err, unix.EBADF)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors leaked", after-before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestNoAllocations(t *testing.T) {
	both(t, func(t *testing.T, locked bool) {
		r, _ := newRing(t, 8, locked)
		b := make([]byte, 4096)
		var cs [8]Completion
		n := testing.AllocsPerRun(50, func() {
			r.Write(b, 0, 0, 1)
			r.Read(b, 4096, 2)
			if err := r.Submit(); err != nil {
				t.Fatal(err)
			}
			for left := 2; left > 0; {
				if err := r.Wait(); err != nil {
					t.Fatal(err)
				}
				left -= r.Reap(cs[:])
			}
		})
		if n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkNop(b *testing.B) {
	for _, locked := range []bool{false, true} {
		for _, batch := range []int{1, 32} {
			b.Run(map[bool]string{false: "any", true: "locked"}[locked]+map[int]string{1: "1", 32: "32"}[batch], func(b *testing.B) {
				runtime.LockOSThread()
				r, _ := newRing(b, 32, locked)
				var cs [32]Completion
				b.ReportAllocs()
				for b.Loop() {
					for range batch {
						r.Nop(1)
					}
					if err := r.Submit(); err != nil {
						b.Fatal(err)
					}
					for left := batch; left > 0; {
						left -= r.Reap(cs[:])
					}
				}
			})
		}
	}
}
