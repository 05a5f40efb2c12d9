package meter

import "github.com/nvmeof-go/nvmeof/capsule"

// An Op is a kind of command.
type Op uint8

const (
	Other Op = iota // reservation commands, and opcodes that do not exist
	Read
	Write
	Flush
	Compare
	Zeroes
	Deallocate // Dataset Management
	Copy
	Verify
	Ops // the number of kinds
)

// String returns the name in metrics.
func (o Op) String() string {
	return [Ops]string{"other", "read", "write", "flush", "compare", "zeroes", "dsm", "copy", "verify"}[o]
}

// OpOf returns the kind of an opcode of the NVM command set.
func OpOf(o capsule.IOOpcode) Op {
	switch o {
	case capsule.IORead:
		return Read
	case capsule.IOWrite:
		return Write
	case capsule.IOFlush:
		return Flush
	case capsule.IOCompare:
		return Compare
	case capsule.IOWriteZeroes:
		return Zeroes
	case capsule.IODatasetManagement:
		return Deallocate
	case capsule.IOCopy:
		return Copy
	case capsule.IOVerify:
		return Verify
	}
	return Other
}
