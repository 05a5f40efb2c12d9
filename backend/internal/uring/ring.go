// Package uring is a minimal io_uring(7): one submission queue and one completion queue on one file, for reads, writes,
// fallocate and fdatasync.
//
// # Threads
//
// A ring is used by one goroutine at a time. With [Config.LockedThread] that goroutine stays locked to its OS thread
// from the first Submit to the end. The kernel then makes completions only inside this package's calls, which needs no
// interrupt and no lock. Calls from another thread fail with EEXIST. Without LockedThread the goroutine may move
// between threads, and the kernel makes completions at any time, which costs more.
//
// # The Go runtime
//
// Only Wait, which blocks, uses the runtime's system call entry. For any other call the runtime's monitor would wake
// up, and then poll every 20 µs for a while. Submit passes blocking operations to a kernel worker, and Reap and
// ClearEvent cannot block.
//
// # Buffers
//
// The kernel accesses buffers after the call that named them has returned. The caller must keep them allocated until
// the completion: memory outside the Go heap, or a referenced slice, since the collector does not move heap objects.
package uring

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnsupported says why there is no io_uring: the kernel is older than 5.12, or forbids it (the sysctl
// kernel.io_uring_disabled, or a container's seccomp filter).
var ErrUnsupported = errors.New("io_uring is not available")

// Config configures a ring. A zero field selects the default.
type Config struct {
	Entries      int  // maximum operations in flight, at most 16384; required
	File         int  // the descriptor for all operations
	LockedThread bool // see the package documentation
}

// A Completion is the result of one operation.
type Completion struct {
	UserData uint64
	Result   int32 // bytes, or a negative error number
}

// Ring is an open io_uring.
type Ring struct {
	fd, event int
	disabled  bool // until the first Submit, whose thread becomes the issuer
	deferred  bool // completions are made only in our calls

	rings, entries []byte // mappings

	sqHead, sqTail, sqFlags *uint32
	sqMask                  uint32
	sqes                    []sqe
	tail                    uint32 // end of the prepared entries; the kernel sees them at Submit

	cqHead, cqTail, cqFlags *uint32
	cqMask                  uint32
	cqes                    []cqe

	memory memory
}

// New opens a ring. The error wraps [ErrUnsupported] if io_uring is not available.
func New(cfg Config) (*Ring, error) {
	if cfg.Entries < 1 || cfg.Entries > 16384 {
		return nil, fmt.Errorf("io_uring of %d entries: must be 1 to 16384", cfg.Entries)
	}
	p, fd, err := setup(cfg)
	if err != nil {
		return nil, err
	}
	r := &Ring{
		fd:       fd,
		event:    -1,
		disabled: p.flags&setupRDisabled != 0,
		deferred: p.flags&setupDeferTaskrun != 0,
	}
	if err := r.open(p, cfg.File); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// setup tries the flags of newer kernels first.
func setup(cfg Config) (*params, int, error) {
	modes := []uint32{setupSubmitAll, 0}
	if cfg.LockedThread {
		const coop = setupCoopTaskrun | setupTaskrunFlag | setupSubmitAll
		modes = []uint32{coop | setupSingleIssuer | setupDeferTaskrun | setupRDisabled, coop, setupSubmitAll, 0}
	}
	var errno unix.Errno
	for _, flags := range modes {
		p := &params{flags: flags}
		var fd uintptr
		fd, _, errno = unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(cfg.Entries), uintptr(unsafe.Pointer(p)), 0)
		if errno == unix.EINVAL {
			continue
		}
		if errno != 0 {
			break
		}
		const needed = featSingleMmap | featNodrop | featNativeWorkers
		if p.features&needed != needed {
			unix.Close(int(fd))
			return nil, 0, fmt.Errorf("%w: kernel older than 5.12", ErrUnsupported)
		}
		return p, int(fd), nil
	}
	if errno == unix.ENOSYS || errno == unix.EPERM || errno == unix.EINVAL {
		return nil, 0, fmt.Errorf("%w: %w", ErrUnsupported, errno)
	}
	if errno == unix.ENOMEM {
		return nil, 0, fmt.Errorf("io_uring_setup: %w (the limit on locked memory, ulimit -l, may be too low)", errno)
	}
	return nil, 0, fmt.Errorf("io_uring_setup: %w", errno)
}

func (r *Ring) open(p *params, file int) (err error) {
	size := max(uintptr(p.sq.array)+4*uintptr(p.sqEntries), uintptr(p.cq.cqes)+unsafe.Sizeof(cqe{})*uintptr(p.cqEntries))
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if r.rings, err = unix.Mmap(r.fd, offRings, int(size), prot, flags); err != nil {
		return fmt.Errorf("map rings of io_uring: %w", err)
	}
	size = unsafe.Sizeof(sqe{}) * uintptr(p.sqEntries)
	if r.entries, err = unix.Mmap(r.fd, offSQEs, int(size), prot, flags); err != nil {
		return fmt.Errorf("map entries of io_uring: %w", err)
	}
	r.locate(p)
	if r.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	atomic.StoreUint32(r.cqFlags, cqEventfdDisabled)
	if err := r.register(registerEventfd, int32(r.event)); err != nil {
		return fmt.Errorf("register eventfd with io_uring: %w", err)
	}
	if err := r.register(registerFiles, int32(file)); err != nil {
		return fmt.Errorf("register file with io_uring: %w", err)
	}
	return nil
}

// locate finds the fields in the mappings.
func (r *Ring) locate(p *params) {
	at := func(offset uint32) unsafe.Pointer { return unsafe.Pointer(&r.rings[offset]) }
	r.sqHead, r.sqTail, r.sqFlags = (*uint32)(at(p.sq.head)), (*uint32)(at(p.sq.tail)), (*uint32)(at(p.sq.flags))
	r.cqHead, r.cqTail, r.cqFlags = (*uint32)(at(p.cq.head)), (*uint32)(at(p.cq.tail)), (*uint32)(at(p.cq.flags))
	r.sqMask, r.cqMask = p.sqEntries-1, p.cqEntries-1
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&r.entries[0])), p.sqEntries)
	r.cqes = unsafe.Slice((*cqe)(at(p.cq.cqes)), p.cqEntries)
	// Entries are used in the order of their positions, so the submission queue's index array stays the identity.
	array := unsafe.Slice((*uint32)(at(p.sq.array)), p.sqEntries)
	for i := range array {
		array[i] = uint32(i)
	}
}

func (r *Ring) register(op uintptr, fd int32) error {
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), op,
		uintptr(unsafe.Pointer(&fd)), 1, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Release removes the file from the ring: no further operation can begin, and those in flight continue. Close alone is
// not enough: the kernel frees a ring tens of milliseconds after it was closed and has the file open until then. In
// that time its file system cannot be unmounted, nor its device be opened exclusively. With [Config.LockedThread]
// Release fails on any thread other than that of Submit.
func (r *Ring) Release() error {
	none := int32(-1)
	u := filesUpdate{fds: uint64(uintptr(unsafe.Pointer(&none)))}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerFilesUpdate, uintptr(unsafe.Pointer(&u)), 1, 0, 0)
	runtime.KeepAlive(&none)
	if errno != 0 {
		return fmt.Errorf("take file from io_uring: %w", errno)
	}
	return nil
}

// Close frees the ring, and removes the file as [Ring.Release] does, unless another thread has submitted. No operation
// may be in flight.
func (r *Ring) Close() error {
	if r.fd < 0 {
		return nil
	}
	_ = r.Release() // what cannot be done now the kernel does later
	for _, m := range [][]byte{r.rings, r.entries} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	if r.event >= 0 {
		_ = unix.Close(r.event)
	}
	err := unix.Close(r.fd)
	*r = Ring{fd: -1, event: -1}
	return err
}
