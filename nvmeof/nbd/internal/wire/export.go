package wire

import "math"

// An Export has the properties of an export that are sent to clients.
type Export struct {
	Name        string
	Description string
	Size        uint64 // bytes
	Flags       TransmissionFlags
	// Block size constraints in bytes. All but the maximum are powers of two.
	MinBlock, PreferredBlock, MaxBlock uint32
}

// Limits are the limits of one client's requests.
type Limits struct {
	Size     uint64 // bytes
	ReadOnly bool
	// Offset and length must be multiples of Block: 1 for a client that has not asked for the block sizes ["Block size
	// constraints"].
	Block uint32
	// MaxPayload is the maximum number of bytes that a request transfers.
	MaxPayload uint32
	// Allocation says that the client has selected base:allocation, so that it may send BLOCK_STATUS.
	Allocation bool
}

// Check returns what is wrong with a request, or OK.
func (l *Limits) Check(r *Request) Errno {
	switch {
	case !r.Command.known() || r.Flags&^commands[r.Command].flags != 0:
		return EINVAL
	case r.Command == CmdFlush || r.Command == CmdDisc:
		return OK
	case r.Command == CmdBlockStatus && !l.Allocation:
		return EINVAL
	case l.ReadOnly && r.Command != CmdRead && r.Command != CmdBlockStatus:
		return EPERM
	case r.Length == 0 || r.Offset > math.MaxInt64:
		return EINVAL
	case (r.Command == CmdRead || r.Command == CmdWrite) && r.Length > l.MaxPayload:
		if r.Flags&FlagDF != 0 {
			return EOVERFLOW
		}
		return EINVAL
	case r.Offset > l.Size || uint64(r.Length) > l.Size-r.Offset:
		if r.Command == CmdWrite || r.Command == CmdWriteZeroes {
			return ENOSPC
		}
		return EINVAL
	case l.Block > 1 && (r.Offset|uint64(r.Length))&uint64(l.Block-1) != 0:
		return EINVAL
	}
	return OK
}
