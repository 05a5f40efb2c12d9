//go:build !amd64

package wire

// Prefetch does nothing on this processor.
func Prefetch([]byte) {}
