package rdmatransport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// Bounds, in bytes, of what a consumer can attach to each message of the connection exchange
// over InfiniBand and RoCE (IBTA volume 1, 12.7): the request carries 92 bytes of which the RDMA CM
// takes 36.
const (
	MaxRequestData = 56
	MaxReplyData   = 196
	MaxRejectData  = 148
)

// ConnParams are one side's offer for a connection.
type ConnParams struct {
	PrivateData []byte

	// InitiatorDepth is how many RDMA READs and atomics this side wants to have
	// in flight; ResponderResources how many it serves at a time for the peer.
	// The connection gets the smaller of one side's offer and the other's limit.
	InitiatorDepth     int
	ResponderResources int

	RetryCount    uint8 // transport retries, 0 to 7; active side only
	RNRRetryCount uint8 // 0 to 7, where 7 means without end
	TrafficClass  uint8 // IP type of service of everything sent; active side only
}

// ConnReply is the passive side's answer to Connect.
type ConnReply struct {
	PrivateData        []byte // MaxReplyData bytes over RoCE, whatever the peer filled
	InitiatorDepth     int    // reads we may have in flight
	ResponderResources int    // reads the peer may have in flight
}

// A Listener receives connection requests.
type Listener interface {
	// Accept waits for the next request. It returns [ErrClosed] after Close, and an
	// error that is [ErrDeviceLost] when the device has gone.
	Accept(ctx context.Context) (ConnRequest, error)
	Addr() netip.AddrPort
	Close() error
}

// A ConnRequest is a peer's wish to connect; exactly one of Accept and Reject
// answers it. One that nobody answers is refused when the listener closes.
type ConnRequest interface {
	// PrivateData is the peer's, MaxRequestData bytes over RoCE.
	PrivateData() []byte
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// InitiatorDepth is the most reads this side may have in flight (what the
	// peer offered to serve); ResponderResources the most the peer wants to
	// have in flight towards us.
	InitiatorDepth() int
	ResponderResources() int

	// Accept connects a queue pair that has posted its first receives. It is
	// called by the owner of the queue pair's completion queue and returns
	// without waiting; if the peer never confirms, the queue pair fails with
	// flushed completions. The first message is the peer's: before it has come nothing
	// may be sent (iWARP demands that). After an error Reject is to be called, which fails where the peer has been
	// refused already.
	Accept(qp QueuePair, p ConnParams) error

	// Reject refuses with reason "consumer defined" and the given data.
	Reject(privateData []byte) error
}

// RejectReason is a REJ reason (IBTA volume 1, 12.6.7.2).
type RejectReason uint16

// Reasons that consumers distinguish.
const (
	RejectNoResources      RejectReason = 3
	RejectTimeout          RejectReason = 4
	RejectInvalidServiceID RejectReason = 8
	RejectInvalidTransport RejectReason = 9
	RejectStale            RejectReason = 10
	RejectInvalidGID       RejectReason = 12
	RejectInvalidMTU       RejectReason = 26
	RejectConsumer         RejectReason = 28
)

func (r RejectReason) String() string {
	switch r {
	case RejectNoResources:
		return "no resources"
	case RejectTimeout:
		return "timeout"
	case RejectInvalidServiceID:
		return "nothing listens on that port"
	case RejectInvalidTransport:
		return "transport type not supported"
	case RejectStale:
		return "stale connection"
	case RejectInvalidGID:
		return "address is not the listener's"
	case RejectInvalidMTU:
		return "path MTU not supported"
	case RejectConsumer:
		return "refused by the peer's application"
	}
	return fmt.Sprintf("reason %d", uint16(r))
}

// A RejectError is the peer's refusal of a connection.
type RejectError struct {
	Reason      RejectReason
	PrivateData []byte // the application's, with RejectConsumer
}

func (e *RejectError) Error() string {
	return fmt.Sprintf("connection refused by peer: %v", e.Reason)
}

// Ends of a connection and of a device that are not a work request's failure.
var (
	ErrClosed       = errors.New("closed")
	ErrDisconnected = errors.New("disconnected")
	ErrUnreachable  = errors.New("no answer from peer")
	ErrQueueFull    = errors.New("queue is full")
	ErrSharedRecv   = errors.New("the queue pair takes its receives from a shared queue: post there")
	// ErrDeviceLost ends everything of a device that will not come back: listeners
	// return it, and what can be done is to close the device and open it anew.
	ErrDeviceLost = errors.New("the RDMA device is lost")
)
