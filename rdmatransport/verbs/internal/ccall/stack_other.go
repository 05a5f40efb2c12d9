//go:build linux && !amd64

package ccall

// A Stack is never ready on this processor, for which there is no assembly: callers go
// through cgo.
type Stack struct{}

// Open has nothing to do.
func (s *Stack) Open() error { return nil }

// Close has nothing to do.
func (s *Stack) Close() {}

// Ready reports false.
func (s *Stack) Ready() bool { return false }

// Call is not for callers that asked Ready.
func (s *Stack) Call(function, a, b, c, d uintptr) uintptr {
	panic("ccall: no assembly for this processor")
}
