package wire

import "math"

// An Export is what a server says of one.
type Export struct {
	Name        string
	Description string
	Size        uint64 // bytes
	Flags       TransmissionFlags
	// Limits of requests in bytes: all but the maximum are powers of two.
	MinBlock, PreferredBlock, MaxBlock uint32
}

// Limits are what requests of one client are checked against.
type Limits struct {
	Size     uint64 // bytes
	ReadOnly bool
	// Block is of what offset and length are multiples: 1 for a client that was not
	// told otherwise ["Block size constraints"].
	Block uint32
	// MaxPayload is the most that a request may move, in bytes.
	MaxPayload uint32
	// Allocation: the client has selected base:allocation, and may ask for it.
	Allocation bool
}

// Check is what is wrong with a request, before anything of it is done.
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
