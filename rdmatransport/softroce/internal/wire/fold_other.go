//go:build !amd64

package wire

const canFold = false

func fold(uint32, *byte, int, *byte, int) uint32 { panic("not on this processor") }
