package uring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// memory is memory that the kernel may keep pinned for reads and writes: an operation on it need not look up, pin and
// release each page. A part is registered when it is first used, since registration makes all of the part resident.
type memory struct {
	start, size uintptr
	part        uintptr
	known       []bool // parts that are registered
	vector      iovec  // of the part being registered; it must not move, since the kernel is given its address
}

// maxParts is the maximum number of registered parts; the kernel's limit is 1<<14.
const maxParts = 1 << 12

// UseMemory announces that buffers of operations will lie in mem and that none of them crosses a multiple of part bytes
// from its start. The caller keeps mem mapped until Close. It is an optimization: if the kernel is older than 5.19 or
// its limit on locked memory is reached, operations work without it. Call it before the first Submit.
func (r *Ring) UseMemory(mem []byte, part int) {
	n := (len(mem) + part - 1) / part
	if n == 0 || n > maxParts {
		return
	}
	table := rsrcRegister{count: uint32(n), flags: rsrcSparse}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerBuffers2,
		uintptr(unsafe.Pointer(&table)), unsafe.Sizeof(table), 0, 0)
	if errno != 0 {
		return
	}
	r.memory = memory{
		start: uintptr(unsafe.Pointer(unsafe.SliceData(mem))), size: uintptr(len(mem)), part: uintptr(part), known: make([]bool, n),
	}
}

// fixed returns the part with a buffer, if that part is or can be registered.
func (r *Ring) fixed(b []byte) (part uint16, ok bool) {
	m := &r.memory
	off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - m.start // wraps around for an address before start
	if off >= m.size || len(b) == 0 {
		return 0, false
	}
	i := off / m.part
	if (off+uintptr(len(b))-1)/m.part != i {
		return 0, false
	}
	if !m.known[i] && !r.registerPart(i) {
		return 0, false
	}
	return uint16(i), true
}

// registerPart registers a part and reports whether the kernel accepted it. If not, no further part is tried.
func (r *Ring) registerPart(i uintptr) bool {
	m := &r.memory
	m.vector = iovec{base: uint64(m.start + i*m.part), length: uint64(min(m.part, m.size-i*m.part))}
	update := rsrcUpdate{offset: uint32(i), count: 1, data: uint64(uintptr(unsafe.Pointer(&m.vector)))}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerBuffersUpdate,
		uintptr(unsafe.Pointer(&update)), unsafe.Sizeof(update), 0, 0)
	if errno != 0 {
		m.part, m.size = 1, 0
		return false
	}
	m.known[i] = true
	return true
}

// rsrcRegister is struct io_uring_rsrc_register.
type rsrcRegister struct {
	count, flags uint32
	_            uint64
	data, tags   uint64
}

// rsrcUpdate is struct io_uring_rsrc_update2.
type rsrcUpdate struct {
	offset, _  uint32
	data, tags uint64
	count, _   uint32
}

type iovec struct{ base, length uint64 }
