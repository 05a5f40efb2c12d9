package rdmatransport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// Maximum sizes, in bytes, of the private data in each message of the connection exchange over InfiniBand and RoCE
// (IBTA volume 1, 12.7). A REQ carries 92 bytes, of which the RDMA CM uses 36.
const (
	MaxRequestData = 56
	MaxReplyData   = 196
	MaxRejectData  = 148
)

// ConnParams holds the parameters that one side offers for a connection.
type ConnParams struct {
	PrivateData []byte

	// InitiatorDepth is the number of RDMA READs and atomics that this side wants to have in flight.
	// ResponderResources is the number that it serves at a time for the peer. The connection uses the smaller of one
	// side's offer and the other's limit.
	InitiatorDepth     int
	ResponderResources int

	RetryCount    uint8 // transport retries, 0 to 7; active side only
	RNRRetryCount uint8 // 0 to 7, where 7 means unlimited
	TrafficClass  uint8 // IP type of service of all packets sent; active side only
}

// ConnReply is the passive side's answer to Connect.
type ConnReply struct {
	PrivateData        []byte // always MaxReplyData bytes over RoCE, padded with zeros
	InitiatorDepth     int    // READs that this side may have in flight
	ResponderResources int    // READs that the peer may have in flight
}

// A Listener receives connection requests.
type Listener interface {
	// Accept waits for the next request. It returns [ErrClosed] after Close, and an error that wraps [ErrDeviceLost]
	// when the device is lost.
	Accept(ctx context.Context) (ConnRequest, error)
	Addr() netip.AddrPort
	Close() error
}

// A ConnRequest is a connection request from a peer. It is answered by exactly one of Accept and Reject. Requests
// still unanswered when the listener closes are rejected.
type ConnRequest interface {
	// PrivateData returns the peer's private data, always MaxRequestData bytes over RoCE.
	PrivateData() []byte
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort

	// InitiatorDepth returns the maximum number of READs that this side may have in flight, which is what the peer
	// offered to serve. ResponderResources returns the maximum that the peer wants to have in flight.
	InitiatorDepth() int
	ResponderResources() int

	// Accept connects a queue pair on which the first receives have been posted. It must be called by the owner of
	// the queue pair's completion queue and does not block. If the peer never confirms, the queue pair fails with
	// flushed completions. The peer sends the first message: nothing may be sent before it has arrived (required by
	// iWARP). After an error, call Reject, which fails if the peer has been rejected already.
	Accept(qp QueuePair, p ConnParams) error

	// Reject rejects the request with reason [RejectConsumer] and the given private data.
	Reject(privateData []byte) error
}

// RejectReason is the reason code of a REJ message (IBTA volume 1, 12.6.7.2).
type RejectReason uint16

// Reject reasons that consumers tell apart.
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
		return "address is not that of the listener"
	case RejectInvalidMTU:
		return "path MTU not supported"
	case RejectConsumer:
		return "refused by the peer's application"
	}
	return fmt.Sprintf("reason %d", uint16(r))
}

// A RejectError is returned when the peer rejects a connection.
type RejectError struct {
	Reason      RejectReason
	PrivateData []byte // from the peer's application, with RejectConsumer
}

func (e *RejectError) Error() string {
	return fmt.Sprintf("connection refused by peer: %v", e.Reason)
}

// Errors of connections and devices, as opposed to the status of a failed work request.
var (
	ErrClosed       = errors.New("closed")
	ErrDisconnected = errors.New("disconnected")
	ErrUnreachable  = errors.New("no answer from peer")
	ErrQueueFull    = errors.New("queue is full")
	ErrSharedRecv   = errors.New("the queue pair uses a shared receive queue: post receives there")
	// ErrDeviceLost is returned, by listeners among others, when the device will not come back. The caller can only
	// close the device and open it again.
	ErrDeviceLost = errors.New("the RDMA device is lost")
)
