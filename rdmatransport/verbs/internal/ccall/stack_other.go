//go:build linux && !amd64

package ccall

// A Stack is never ready on this processor, since there is no assembly for it: callers use cgo.
type Stack struct{}

// Open does nothing.
func (s *Stack) Open() error { return nil }

// Close does nothing.
func (s *Stack) Close() {}

// Ready returns false.
func (s *Stack) Ready() bool { return false }

// Call must not be called, since Ready returns false.
func (s *Stack) Call(function, a, b, c, d uintptr) uintptr {
	panic("ccall: no assembly for this processor")
}
