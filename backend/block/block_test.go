package block

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
	"github.com/nvmeof-go/nvmeof/backend/internal/disk"
)

var (
	_ backend.Store   = (*Store)(nil)
	_ backend.Resizer = (*Store)(nil)
	_ backend.Latcher = (*Store)(nil)

	_ backend.HealthReporter = (*Store)(nil)

	withSCSI   = flag.Bool("scsi_debug", false, "load scsi_debug(4), whose disks fail on demand; for a machine without other SCSI disks, as root")
	withDrives = flag.String("drives", "", "query these disks of QEMU for their health, an NVMe and an ATA one: /dev/nvme0n1,/dev/sda")
)

const testSize = 20 << 20

// engines are the engines that this machine supports.
func engines(t testing.TB) []disk.Engine {
	if err := backendtest.NoRings(); err != nil {
		t.Logf("only threads are tested: %v", err)
		return []disk.Engine{disk.EngineThreads}
	}
	return []disk.Engine{disk.EngineURing, disk.EngineThreads}
}

// A loop is a loop device on a file of its own.
type loop struct {
	path, file string
	device     *os.File
}

// newLoop attaches a loop device, or skips the test if that is not possible.
func newLoop(t *testing.T, size int64, block uint32, flags uint32) *loop {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("loop devices need root and the loop module: %v", err)
	}
	defer control.Close()
	l := &loop{file: filepath.Join(t.TempDir(), "disk.img")}
	f, err := os.Create(l.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	cfg := unix.LoopConfig{Fd: uint32(f.Fd()), Size: block, Info: unix.LoopInfo64{Flags: flags}}
	for try := 0; ; try++ { // another process may take the free one first
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			t.Skipf("no loop device is free: %v", err)
		}
		l.path = fmt.Sprintf("/dev/loop%d", n)
		if l.device, err = os.OpenFile(l.path, os.O_RDWR, 0); err != nil {
			t.Skipf("loop device: %v", err)
		}
		if err = unix.IoctlLoopConfigure(int(l.device.Fd()), &cfg); err == nil {
			break
		}
		l.device.Close()
		if !errors.Is(err, unix.EBUSY) || try > 10 {
			t.Skipf("attach %s: %v", l.path, err)
		}
	}
	t.Cleanup(func() {
		unix.IoctlSetInt(int(l.device.Fd()), unix.LOOP_CLR_FD, 0)
		l.device.Close()
	})
	return l
}

func openStore(t testing.TB, path string, cfg Config) *Store {
	t.Helper()
	s, err := Open(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// run executes one request on a queue of its own.
func run(t testing.TB, s *Store, r backend.Request) error {
	t.Helper()
	wake := make(chan struct{}, 1)
	q, err := s.NewQueue(1, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	q.Submit([]backend.Request{r})
	var got [1]backend.Result
	for q.Poll(got[:]) == 0 {
		select {
		case <-wake:
		case <-time.After(30 * time.Second):
			t.Fatalf("%v: no result, or no notification of it", r.Op)
		}
	}
	return got[0].Err
}

func transfer(op backend.Op, offset, length int64, fill byte) backend.Request {
	r := backend.Request{Op: op, Offset: offset, Length: length}
	if op == backend.OpRead || op == backend.OpWrite {
		r.Buf = backendtest.Buffer(int(length), 4096)
		for i := range r.Buf {
			r.Buf[i] = fill
		}
	}
	return r
}

func TestConformance(t *testing.T) {
	for _, engine := range engines(t) {
		for _, block := range []int{512, 4096} {
			direct := (engine == disk.EngineThreads) == (block == 512) // each engine both ways
			cfg := Config{Buffered: !direct, Options: disk.Options{Engine: engine, LockedThreads: direct}}
			t.Run(fmt.Sprintf("%v,block=%d,direct=%v", engine, block, direct), func(t *testing.T) {
				l := newLoop(t, testSize, uint32(block), 0)
				backendtest.Run(t, func(t *testing.T) backend.Store { return openStore(t, l.path, cfg) })
			})
		}
	}
}
