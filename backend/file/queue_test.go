package file

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

func countFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Stores and queues release everything.
func TestNoLeaks(t *testing.T) {
	for _, engine := range engines(t) {
		files, goroutines := countFiles(t), runtime.NumGoroutine()
		s := openStore(t, tempFile(t), Config{Size: 1 << 20, Engine: engine})
		for range 5 {
			for i := range 3 {
				if err := run(t, s, writeRequest(4096, byte(i))); err != nil {
					t.Fatal(err)
				}
			}
		}
		closeStore(t, s)
		if n := countFiles(t); n != files {
			t.Errorf("%v: %d descriptors before, %d after", engine, files, n)
		}
		for range 100 { // those that have just ended still count
			if runtime.NumGoroutine() <= goroutines {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("%v: %d goroutines before, %d after", engine, goroutines, n)
		}
	}
}

func TestQueueDepthIsBounded(t *testing.T) {
	s := openStore(t, tempFile(t), Config{Size: 1 << 20})
	defer closeStore(t, s)
	for _, depth := range []int{8193, 1 << 40} {
		if _, err := s.NewQueue(depth, nil); err == nil {
			t.Errorf("NewQueue took a depth of %d", depth)
		}
	}
	q, err := s.NewQueue(8192, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

// A caller that breaks the promise of LockedThreads gets an error, and nothing is lost.
func TestLockedThreadsBroken(t *testing.T) {
	if engines(t)[0] != EngineURing {
		return // a promise only for rings
	}
	runtime.LockOSThread()
	s := openStore(t, tempFile(t), Config{Size: 1 << 20, LockedThreads: true})
	q, err := s.NewQueue(4, nil)
	if err != nil {
		t.Fatal(err)
	}
	poll := func() error {
		var got [1]backend.Result
		for q.Poll(got[:]) == 0 {
			runtime.Gosched()
		}
		return got[0].Err
	}
	q.Submit([]backend.Request{writeRequest(4096, 1)})
	if err := poll(); err != nil {
		t.Fatal(err)
	}
	other := make(chan error)
	go func() {
		runtime.LockOSThread()
		q.Submit([]backend.Request{writeRequest(4096, 2)})
		other <- poll()
	}()
	if err := <-other; err == nil {
		t.Log("the kernel lets any thread submit")
	}
	q.Submit([]backend.Request{writeRequest(4096, 3)})
	if err := poll(); err != nil {
		t.Errorf("on its own thread again: %v", err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	closeStore(t, s)
}

func BenchmarkQueue(b *testing.B) {
	for _, engine := range engines(b) {
		for _, locked := range []bool{false, true} {
			for _, depth := range []int{1, 32} {
				if locked && engine == EngineThreads {
					continue
				}
				b.Run(fmt.Sprintf("%v/locked=%v/read4kQD%d", engine, locked, depth), func(b *testing.B) {
					runtime.LockOSThread()
					benchmark(b, Config{Size: 64 << 20, Engine: engine, LockedThreads: locked}, depth)
				})
			}
		}
	}
}

func benchmark(b *testing.B, cfg Config, depth int) {
	s := openStore(b, tempFile(b), cfg)
	defer closeStore(b, s)
	q, err := s.NewQueue(depth, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	rs := make([]backend.Request, depth)
	for i := range rs {
		rs[i] = backend.Request{Op: backend.OpRead, Length: 4096, Buf: backendtest.Buffer(4096, 4096)}
	}
	got := make([]backend.Result, depth)
	offset := int64(0)
	b.ReportAllocs()
	b.SetBytes(4096)
	for i := 0; b.Loop(); i++ {
		if i%depth != 0 {
			continue
		}
		for j := range rs {
			offset = (offset + 37*4096) % cfg.Size
			rs[j].Offset = offset
		}
		q.Submit(rs)
		for left := depth; left > 0; {
			left -= q.Poll(got)
			runtime.Gosched()
		}
	}
}

// TestOptionsOfDisk: what is configured reaches the disk.
func TestOptionsOfDisk(t *testing.T) {
	cfg := Config{Engine: EngineThreads, Threads: 3, LockedThreads: true, Workers: NewWorkers()}
	if want := (Options{Engine: EngineThreads, Threads: 3, LockedThreads: true, Workers: cfg.Workers}); cfg.options() != want {
		t.Errorf("%+v, want %+v", cfg.options(), want)
	}
}
