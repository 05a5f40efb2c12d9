package rdmatransport

// QPN is a queue pair number: 24 bits.
type QPN uint32

// LKey names registered memory in a local scatter list.
type LKey uint32

// RKey gives a peer access to registered memory.
type RKey uint32

// Access is what a memory region or window allows. Local reading always is.
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
	OpSend         Opcode = iota // SEND; FlagImmediate and FlagInvalidate vary it
	OpWrite                      // RDMA WRITE; FlagImmediate varies it
	OpRead                       // RDMA READ into the scatter list
	OpCompareSwap                // 8-byte atomic; the old value goes to the scatter list
	OpFetchAdd                   // 8-byte atomic; the old value goes to the scatter list
	OpBindWindow                 // opens Window over SGL[0] with Access
	OpInvalidate                 // kills the local key InvalidateKey
	OpRecv                       // in completions: a SEND arrived
	OpRecvWriteImm               // in completions: a WRITE with immediate data arrived
)

// SendFlags modify a send work request.
type SendFlags uint8

const (
	FlagSignaled   SendFlags = 1 << iota // complete even on success
	FlagFence                            // wait for earlier reads and atomics
	FlagImmediate                        // carry Imm
	FlagInvalidate                       // SEND: kill InvalidateKey at the peer
	FlagSolicited                        // ask the peer's provider to wake its consumer
	FlagInline                           // data is copied at the post; limit Attrs.MaxInline
	// FlagRelaxed gives the provider leave that most consumers have no reason to
	// keep back: the completion may come some 100 µs later than it could, or, while
	// the owner of the completion queue sleeps, 10 ms; and a WRITE may go out in
	// parts, of which some are carried out when another is refused.
	FlagRelaxed
)

// SGE is one element of a scatter list: a part of the region with that key.
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

	Imm           uint32 // FlagImmediate: 32 bits, host order
	InvalidateKey RKey   // FlagInvalidate, OpInvalidate

	Compare uint64 // OpCompareSwap
	Operand uint64 // OpCompareSwap: the new value; OpFetchAdd: the addend

	Window Window // OpBindWindow
	Access Access // OpBindWindow: remote rights
}

// RecvWR is a work request for the receive queue: one arriving message fills
// the scatter list from its start.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

// CompletionFlags say what a receive completion carries.
type CompletionFlags uint8

const (
	HasImmediate   CompletionFlags = 1 << iota // Imm is set
	HasInvalidated                             // InvalidatedKey was killed by the peer
)

// Completion is the outcome of one work request.
type Completion struct {
	ID             uint64
	QPN            QPN
	Op             Opcode
	Status         Status
	Flags          CompletionFlags
	Bytes          uint32 // received by a receive or a read
	Imm            uint32
	InvalidatedKey RKey
}

// Status is a completion's outcome (IBTA volume 1, 11.6.2).
type Status uint8

const (
	StatusSuccess              Status = iota
	StatusFlushed                     // the queue pair ended before the request was done
	StatusLocalLength                 // a message did not fit the receive, or a request was too long
	StatusLocalProtection             // a scatter list names memory that its key does not cover
	StatusLocalOperation              // the request cannot be executed on this queue pair
	StatusBindError                   // OpBindWindow: the region does not allow it
	StatusBadResponse                 // the peer's answer breaks the protocol
	StatusRemoteInvalidRequest        // the peer: request malformed, or not allowed on that queue pair
	StatusRemoteAccess                // the peer: key, range or right refused
	StatusRemoteOperation             // the peer failed while executing
	StatusRetryExceeded               // no acknowledgement within all retries
	StatusRNRRetryExceeded            // the peer had no receive posted, too often
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
