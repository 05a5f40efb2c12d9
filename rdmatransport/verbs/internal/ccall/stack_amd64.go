//go:build linux

package ccall

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stackSize is for functions of libibverbs' providers, which need a few KiB, and what the
// C library needs of its own, with a page below it that ends the program where it is not
// enough.
const stackSize = 256 << 10

// A Stack is what one goroutine at a time calls functions on. The zero value is to be
// opened.
type Stack struct {
	mem []byte
	top uintptr
	// Room for the arguments of one call, where no growing goroutine stack moves it.
	args [Arguments]uintptr
}

// Open gets the memory.
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

// Close frees it.
func (s *Stack) Close() {
	if s.mem != nil {
		unix.Munmap(s.mem)
		s.mem, s.top = nil, 0
	}
}

// Ready reports whether there is a stack.
func (s *Stack) Ready() bool { return s.top != 0 }

// Call calls the C function at an address. Memory of Go's whose address is an argument, written as
// uintptr(unsafe.Pointer(p)) in the call itself, is on the heap and stays reachable until it returns. The
// compiler sees to that, and would allocate a list of arguments each time, were it one.
//
//go:uintptrescapes
func (s *Stack) Call(function, a, b, c, d uintptr) uintptr {
	s.args = [Arguments]uintptr{a, b, c, d}
	return call(function, s.top, &s.args)
}

// call is in assembly.
//
//go:noescape
func call(function, top uintptr, args *[Arguments]uintptr) uintptr
