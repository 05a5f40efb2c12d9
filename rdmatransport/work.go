package rdmatransport

// QPN is a queue pair number: 24 bits.
type QPN uint32

// An LKey is the local key of registered memory, used in scatter lists.
type LKey uint32

// An RKey is the remote key with which a peer accesses registered memory.
type RKey uint32

// Access is the set of rights to a memory region or window. Local reads are always allowed.
type Access uint8

const (
	AccessLocalWrite Access = 1 << iota
	AccessRemoteRead
	AccessRemoteWrite
	AccessRemoteAtomic
)

// Opcode is the operation of a work request.
type Opcode uint8

const (
	OpSend         Opcode = iota // SEND; modified by FlagImmediate and FlagInvalidate
	OpWrite                      // RDMA WRITE; modified by FlagImmediate
	OpRead                       // RDMA READ into the scatter list
	OpCompareSwap                // 8-byte atomic; the old value is stored in the scatter list
	OpFetchAdd                   // 8-byte atomic; the old value is stored in the scatter list
	OpBindWindow                 // binds Window to SGL[0] with Access
	OpInvalidate                 // invalidates the local key InvalidateKey
	OpRecv                       // in completions: a SEND arrived
	OpRecvWriteImm               // in completions: a WRITE with immediate data arrived
)

// SendFlags modify a send work request.
type SendFlags uint8

const (
	FlagSignaled   SendFlags = 1 << iota // generate a completion even on success
	FlagFence                            // wait for earlier reads and atomics
	FlagImmediate                        // carry Imm
	FlagInvalidate                       // SEND: invalidate the peer's InvalidateKey
	FlagSolicited                        // request a solicited event at the peer
	FlagInline                           // data is copied when posted; limit Attrs.MaxInline
	// FlagRelaxed relaxes two guarantees that most consumers do not need. The completion may come some 100 µs later
	// than possible, or 10 ms later while the owner of the completion queue sleeps. A WRITE may be sent in parts,
	// some of which may be executed when another is refused.
	FlagRelaxed
)

// SGE is one element of a scatter list: part of the memory region with that key.
type SGE struct {
	Buf  []byte
	LKey LKey
}

// SendWR is a work request for the send queue.
type SendWR struct {
	ID    uint64 // returned in the completion
	Op    Opcode
	Flags SendFlags
	SGL   []SGE

	RemoteAddr uint64 // WRITE, READ, atomics
	RKey       RKey   // WRITE, READ, atomics

	Imm           uint32 // FlagImmediate: immediate data in host byte order
	InvalidateKey RKey   // FlagInvalidate, OpInvalidate

	Compare uint64 // OpCompareSwap
	Operand uint64 // OpCompareSwap: the new value; OpFetchAdd: the addend

	Window Window // OpBindWindow
	Access Access // OpBindWindow: remote rights
}

// RecvWR is a work request for the receive queue. One arriving message fills the scatter list from its start.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

// CompletionFlags tell which fields of a receive completion are set.
type CompletionFlags uint8

const (
	HasImmediate   CompletionFlags = 1 << iota // Imm is set
	HasInvalidated                             // the peer has invalidated InvalidatedKey
)

// Completion is the outcome of one work request.
type Completion struct {
	ID             uint64
	QPN            QPN
	Op             Opcode
	Status         Status
	Flags          CompletionFlags
	Bytes          uint32 // received by a receive or a READ
	Imm            uint32
	InvalidatedKey RKey
}

// Status is a completion's outcome (IBTA volume 1, 11.6.2).
type Status uint8

const (
	StatusSuccess              Status = iota
	StatusFlushed                     // the queue pair ended before the request completed
	StatusLocalLength                 // a message was longer than the receive, or a request too long
	StatusLocalProtection             // a scatter list uses memory that its key does not cover
	StatusLocalOperation              // the request cannot be executed on this queue pair
	StatusBindError                   // OpBindWindow: the region does not allow it
	StatusBadResponse                 // the peer's response violates the protocol
	StatusRemoteInvalidRequest        // the peer: request malformed, or not allowed on that queue pair
	StatusRemoteAccess                // the peer: invalid key, range or access right
	StatusRemoteOperation             // the peer failed to execute the request
	StatusRetryExceeded               // no acknowledgement after all retries
	StatusRNRRetryExceeded            // the peer had no receive posted after all retries
)

var statusText = [...]string{
	"success", "flushed", "local length error", "local protection error", "local operation error",
	"window bind error", "bad response from peer", "peer refused: invalid request",
	"peer refused: remote access", "peer failed: remote operation",
	"no acknowledgement from peer", "peer not ready to receive",
}

func (s Status) String() string {
	if int(s) < len(statusText) {
		return statusText[s]
	}
	return "unknown status"
}
