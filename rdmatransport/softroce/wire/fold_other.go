//go:build !amd64

package wire

const canFold = false

func fold(*[64]byte, uint32, *byte, int) { panic("not on this processor") }
