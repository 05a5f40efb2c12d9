package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
)

// The kinds of regular files of package file: one that keeps its storage, one that has holes, and one that is to have
// them. The disk assumes direct I/O for them.
var (
	thick  = Config{Direct: true, Info: backend.Info{Size: 32 << 20}}
	sparse = Config{Direct: true, Info: backend.Info{Size: 32 << 20, Deallocate: true}}
	thin   = Config{Direct: true, Info: backend.Info{Size: 32 << 20, Deallocate: true}, PunchZeroes: true}
)

// openDisk returns a disk of a new sparse file of Info.Size, with I/O through the page cache.
func openDisk(t testing.TB, cfg Config) *Disk {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "namespace.img"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(cfg.Info.Size); err != nil {
		t.Fatal(err)
	}
	d, err := attach(f.Name(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// attach opens an existing file.
func attach(path string, cfg Config) (*Disk, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	cfg.Name, cfg.FD = path, fd
	if cfg.Info.BlockSize == 0 {
		cfg.Info.BlockSize = 4096
	}
	cfg.Release = func() error { return unix.Close(fd) }
	if cfg.Measure == nil {
		cfg.Measure = func() (int64, error) {
			var st unix.Stat_t
			err := unix.Fstat(fd, &st)
			return st.Size, err
		}
	}
	return New(cfg)
}

// TestNoRingForQueue: memory or descriptors for a ring may be exhausted for one queue after earlier queues had enough.
// Threads are then used, unless io_uring is required.
func TestNoRingForQueue(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EPERM, unix.ENOSYS} {
		for _, kind := range []Engine{EngineAuto, EngineURing} {
			d := openDisk(t, Config{Info: backend.Info{Size: 1 << 20}})
			d.cfg.Engine, d.notes, d.threadsNoted = kind, nil, sync.Once{}
			d.newEngine = func(*Disk, int, func()) (engine, error) {
				return nil, fmt.Errorf("io_uring_setup: %w", errno)
			}
			var qs []backend.Queue
			for range 2 {
				q, err := d.NewQueue(4, nil)
				if kind == EngineURing {
					if !errors.Is(err, errno) {
						t.Errorf("%v, %v: NewQueue: %v", kind, errno, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%v, %v: %v", kind, errno, err)
				}
				qs = append(qs, q)
				q.Submit([]backend.Request{{Tag: 7, Op: backend.OpFlush}})
				var got [1]backend.Result
				for q.Poll(got[:]) == 0 {
				}
				if got[0] != (backend.Result{Tag: 7}) {
					t.Errorf("%v: %+v", errno, got[0])
				}
			}
			if notes := d.Notes(); kind == EngineAuto && (len(notes) != 1 || !strings.Contains(notes[0], errno.Error())) {
				t.Errorf("%v: notes %q, want one with the reason", errno, notes)
			}
			for _, q := range qs {
				if err := q.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestStatHangs: while a call of Stat hangs and Close waits for it, other calls end.
func TestStatHangs(t *testing.T) {
	d := openDisk(t, sparse)
	began, goOn, closed := make(chan struct{}), make(chan struct{}), make(chan error)
	go d.Stat(func(int) error {
		close(began)
		<-goOn
		return nil
	})
	<-began
	if err := d.Stat(func(int) error { return nil }); err != nil {
		t.Error(err)
	}
	go func() { closed <- d.Close() }()
	for !d.isClosed() || d.using.TryRLock() { // until Close waits for using
		if d.isClosed() {
			d.using.RUnlock()
		}
		runtime.Gosched()
	}
	again := make(chan error, 1)
	go func() { again <- d.Stat(func(int) error { return nil }) }()
	select {
	case err := <-again:
		if err != backend.ErrClosed {
			t.Errorf("Stat of a disk that is being closed: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Stat of a disk that is being closed hangs")
	}
	close(goOn)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
