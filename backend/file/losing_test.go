package file

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/backend/backendtest"
)

// A losingFS is a file system with one file that accepts writes without allocating storage. Once it is full, the next
// sync drops what was not durable and reports that once: later syncs have nothing to do and succeed. Looking up the
// name fillName makes it full. A separate process serves it, since this process may be blocked in the kernel waiting
// for it.
type losingFS struct {
	fuse.RawFileSystem
	allocated bool // reports that all of the file has storage

	mu              sync.Mutex
	durable, cached []byte // as long as the file
	full            bool

	growth
	hung atomic.Bool // writes are not answered
}

const (
	losingNode = 2
	losingSize = 1 << 20
	losingName = "namespace.img"
	fillName   = "fill"
)

func newLosingFS(allocated bool) *losingFS {
	return &losingFS{RawFileSystem: fuse.NewDefaultRawFileSystem(), allocated: allocated,
		durable: make([]byte, losingSize), cached: make([]byte, losingSize), growth: newGrowth()}
}

func (f *losingFS) String() string { return "losing" }

func (f *losingFS) attributes(node uint64, a *fuse.Attr) fuse.Status {
	*a = fuse.Attr{Ino: node, Mode: syscall.S_IFDIR | 0o755, Nlink: 2, Blksize: 4096}
	if node == losingNode {
		f.mu.Lock()
		defer f.mu.Unlock()
		a.Mode, a.Nlink, a.Size = syscall.S_IFREG|0o600, 1, max(uint64(len(f.cached)), f.growth.size.Load())
		if f.allocated {
			a.Blocks = a.Size / 512
		}
	}
	return fuse.OK
}

func (f *losingFS) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if name == fillName {
		f.mu.Lock()
		f.full = true
		f.mu.Unlock()
	}
	f.growth.obey(name)
	if name == hangName {
		f.hung.Store(true)
	}
	if h.NodeId != fuse.FUSE_ROOT_ID || name != losingName {
		return fuse.ENOENT
	}
	out.NodeId = losingNode
	return f.attributes(losingNode, &out.Attr)
}

func (f *losingFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return f.attributes(in.NodeId, &out.Attr)
}

// SetAttr makes the file longer.
func (f *losingFS) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if size, is := in.GetSize(); is && f.growth.on.Load() {
		f.growth.size.Store(size)
	} else if is {
		f.mu.Lock()
		more := make([]byte, size-uint64(len(f.cached)))
		f.durable, f.cached = append(f.durable, more...), append(f.cached, more...)
		f.mu.Unlock()
	}
	return f.attributes(in.NodeId, &out.Attr)
}

func (f *losingFS) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	out.Blocks, out.Bsize, out.Frsize = losingSize/4096, 1<<20, 4096 // transfers are best larger than a block
	if f.growth.on.Load() {
		out.Bfree, out.Bavail = 1<<30, 1<<30
	}
	return fuse.OK
}

func (f *losingFS) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

func (f *losingFS) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fuse.ReadResultData(bytes.Clone(f.cached[in.Offset:min(in.Offset+uint64(in.Size), uint64(len(f.cached)))])), fuse.OK
}

func (f *losingFS) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	if f.hung.Load() {
		select {} // until the file system is served no more
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	copy(f.cached[in.Offset:], data)
	if in.Flags&(syscall.O_DSYNC|syscall.O_SYNC) != 0 {
		if s := f.sync(); s != fuse.OK {
			return 0, s
		}
	}
	return uint32(len(data)), fuse.OK
}

func (f *losingFS) Fsync(<-chan struct{}, *fuse.FsyncIn) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sync()
}

func (f *losingFS) sync() fuse.Status {
	if f.full {
		f.full = false
		copy(f.cached, f.durable)
		return fuse.Status(syscall.ENOSPC)
	}
	copy(f.durable, f.cached)
	return fuse.OK
}

// serveLosing serves the file system until its standard input is closed.
func serveLosing(arg string) {
	dir, allocated, _ := strings.Cut(arg, ":")
	server, err := fuse.NewServer(newLosingFS(allocated == "true"), dir, &fuse.MountOptions{DirectMountStrict: true, DirectMountFlags: syscall.MS_NODEV})
	if err != nil {
		fmt.Println("cannot mount:", err)
		return
	}
	go server.Serve() // ends with the process
	must(server.WaitMount())
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// mounted calls f with the directory of a losing file system. It exits if that cannot be mounted or f fails.
func mounted(dir string, allocated bool, f func(dir string) error) {
	dir, err := os.MkdirTemp(dir, "")
	must(err)
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), fmt.Sprintf("%s=serve losing:%s:%v", roleVariable, dir, allocated))
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	must(err)
	out, err := server.StdoutPipe()
	must(err)
	must(server.Start())
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		fmt.Print(line)
		os.Exit(0)
	}
	err = f(dir)
	in.Close()
	server.Wait()
	_ = unix.Unmount(dir, unix.MNT_DETACH)
	must(err)
}

// loseUnderStores runs as root of its own user namespace.
func loseUnderStores(dir string) {
	for _, engine := range []Engine{EngineAuto, EngineURing, EngineThreads} {
		if engine == EngineURing && backendtest.NoRings() != nil {
			continue
		}
		for _, buffered := range []bool{true, false} {
			for _, allocated := range []bool{true, false} {
				mounted(dir, allocated, func(dir string) error {
					if err := loseUnderStore(dir, Config{Engine: engine, Buffered: buffered}, durableWrite); err != nil {
						return fmt.Errorf("%v, buffered %v, allocated %v: %w", engine, buffered, allocated, err)
					}
					return nil
				})
				mounted(dir, allocated, func(dir string) error {
					if err := loseUnderStore(dir, Config{Engine: engine, Buffered: buffered}, longer); err != nil {
						return fmt.Errorf("as it grows, %v, buffered %v, allocated %v: %w", engine, buffered, allocated, err)
					}
					return nil
				})
			}
		}
	}
	fmt.Println("done")
}

// What syncs the file of a store in addition to its flushes.
var (
	durableWrite = func(_ *Store, do func(backend.Request) error) error { return do(durable()) }
	longer       = func(s *Store, _ func(backend.Request) error) error { return s.Extend(2 * losingSize) }
)

func durable() backend.Request {
	r := writeRequest(4096, 0xcd)
	r.Offset, r.FUA = 64<<10, true
	return r
}

// loseUnderStore makes a sync of the file fail that consumes the report on an acknowledged write. No later flush may
// succeed.
func loseUnderStore(dir string, cfg Config, syncs func(*Store, func(backend.Request) error) error) (err error) {
	s, err := Open(filepath.Join(dir, losingName), cfg)
	if err != nil {
		return err
	}
	if threads := strings.Contains(strings.Join(s.Notes(), ""), "FUSE"); threads != (cfg.Engine == EngineAuto) {
		return fmt.Errorf("notes %q", s.Notes())
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	q, err := s.NewQueue(4, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	do := func(r backend.Request) error {
		q.Submit([]backend.Request{r})
		var got [1]backend.Result
		for q.Poll(got[:]) == 0 {
		}
		return got[0].Err
	}
	acknowledged := writeRequest(8192, 0xab)
	if err := errors.Join(do(durable()), do(acknowledged)); err != nil {
		return err
	}
	_, _ = os.Stat(filepath.Join(dir, fillName))
	if err := syncs(s, do); err == nil {
		return errors.New("what syncs the file succeeded, and the sync failed")
	}
	for range 2 {
		if err := do(backend.Request{Op: backend.OpFlush}); err != backend.ErrFailed {
			return fmt.Errorf("a flush ends with %v although an acknowledged write is gone", err)
		}
	}
	if err := do(acknowledged); err != backend.ErrFailed {
		return fmt.Errorf("a write ends with %v although the store has lost one", err)
	}
	if err := s.Failed(); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("Failed: %w", err)
	}
	return nil
}

// A durable write, or the growth of the file, consumes the only report on an earlier write that could not be written
// back, with an error other than EIO.
func TestDurableWriteTakesReportAlong(t *testing.T) {
	runOnFUSE(t, "lose")
}
