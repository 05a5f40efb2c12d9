// Package uring is a small io_uring(7): one submission and one completion queue
// over one file, for reads, writes, fallocate and fdatasync.
//
// # Threads
//
// A ring is used by one goroutine at a time. With [Config.LockedThread] that
// goroutine is locked to its OS thread from the first Submit to the end, and the
// kernel makes completions only inside this package's calls, which costs no
// interrupt and no lock. Calls from another thread then fail with EEXIST.
// Without it the goroutine may move between threads; completions are made
// whenever the kernel likes, which costs more.
//
// # The Go runtime
//
// Only Wait, which blocks, goes through the runtime's system call entry. Its monitor
// would get up for every other, and look every 20 µs for a while: what Submit cannot do
// without blocking goes to a worker of the kernel's, and Reap and ClearEvent cannot block.
//
// # Buffers
//
// The kernel reads and writes buffers after the call that named them returned.
// The caller keeps them allocated until the completion: memory outside the Go
// heap, or a slice that stays referenced, since the collector does not move
// what is on the heap.
package uring

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnsupported is the reason why there is no io_uring: the kernel is older
// than 5.12, or forbids it (the sysctl kernel.io_uring_disabled, a container's
// seccomp filter).
var ErrUnsupported = errors.New("io_uring is not available")

// Config describes a ring. A zero field takes the default.
type Config struct {
	Entries      int  // operations in flight, at most 16384; required
	File         int  // the descriptor that all operations are on
	LockedThread bool // see the package documentation
}

// A Completion is the outcome of one operation.
type Completion struct {
	UserData uint64
	Result   int32 // bytes, or the negative error number
}

// Ring is an open io_uring.
type Ring struct {
	fd, event int
	disabled  bool // until the first Submit, whose thread becomes the issuer
	deferred  bool // completions are made by our calls only

	rings, entries []byte // mappings

	sqHead, sqTail, sqFlags *uint32
	sqMask                  uint32
	sqes                    []sqe
	tail                    uint32 // prepared entries; the kernel sees them at Submit

	cqHead, cqTail, cqFlags *uint32
	cqMask                  uint32
	cqes                    []cqe

	memory memory
}

// New opens a ring. The error wraps [ErrUnsupported] where that is the reason.
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

// locate finds the parts of the mappings.
func (r *Ring) locate(p *params) {
	at := func(offset uint32) unsafe.Pointer { return unsafe.Pointer(&r.rings[offset]) }
	r.sqHead, r.sqTail, r.sqFlags = (*uint32)(at(p.sq.head)), (*uint32)(at(p.sq.tail)), (*uint32)(at(p.sq.flags))
	r.cqHead, r.cqTail, r.cqFlags = (*uint32)(at(p.cq.head)), (*uint32)(at(p.cq.tail)), (*uint32)(at(p.cq.flags))
	r.sqMask, r.cqMask = p.sqEntries-1, p.cqEntries-1
	r.sqes = unsafe.Slice((*sqe)(unsafe.Pointer(&r.entries[0])), p.sqEntries)
	r.cqes = unsafe.Slice((*cqe)(at(p.cq.cqes)), p.cqEntries)
	// Entries are used in the order of their places, so the indirection of the
	// submission queue stays the identity.
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

// Release takes the file from the ring: no operation can begin any more, and those that have go on. Close alone
// would not do: the kernel frees a ring some time after it was closed, tens of milliseconds, and has
// the file open until then, so that who unmounts its file system or opens its device exclusively is told that it is
// busy. With [Config.LockedThread] it fails on another thread than that of Submit.
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

// Close frees the ring, and lets go of the file as [Ring.Release] does, unless another thread has submitted. Nothing
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
