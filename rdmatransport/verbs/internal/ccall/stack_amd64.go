//go:build linux

package ccall

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stackSize is large enough for functions of libibverbs' providers, which need a few KiB, and of the C library. A
// guard page below it ends the program on overflow.
const stackSize = 256 << 10

// A Stack is the stack for C functions called by one goroutine at a time. It must be opened before use.
type Stack struct {
	mem []byte
	top uintptr
	// The arguments of one call, in memory that does not move when a goroutine's stack grows.
	args [Arguments]uintptr
}

// Open allocates the memory.
func (s *Stack) Open() error {
	mem, err := unix.Mmap(-1, 0, stackSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_STACK|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("a stack of %d KiB for C: %w", stackSize>>10, err)
	}
	if err := unix.Mprotect(mem[:unix.Getpagesize()], unix.PROT_NONE); err != nil {
		unix.Munmap(mem)
		return fmt.Errorf("the guard page of a stack for C: %w", err)
	}
	s.mem, s.top = mem, uintptr(unsafe.Pointer(&mem[0]))+stackSize
	return nil
}

// Close frees the memory.
func (s *Stack) Close() {
	if s.mem != nil {
		unix.Munmap(s.mem)
		s.mem, s.top = nil, 0
	}
}

// Ready reports whether the stack is open.
func (s *Stack) Ready() bool { return s.top != 0 }

// Call calls the C function at an address. A pointer to Go memory is passed as uintptr(unsafe.Pointer(p)), converted
// in the call itself; its memory is then on the heap and stays reachable until Call returns. The compiler guarantees
// that. With a variadic list of arguments, it would allocate for each call.
//
//go:uintptrescapes
func (s *Stack) Call(function, a, b, c, d uintptr) uintptr {
	s.args = [Arguments]uintptr{a, b, c, d}
	return call(function, s.top, &s.args)
}

// call is implemented in assembly.
//
//go:noescape
func call(function, top uintptr, args *[Arguments]uintptr) uintptr
