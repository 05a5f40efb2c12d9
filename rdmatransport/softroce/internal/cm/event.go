package cm

import (
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// EventKind is the kind of an event.
type EventKind uint8

const (
	// EventRequest: a peer asks for a connection. Peer and PrivateData (56 bytes) are set. The caller must call
	// Accept or Reject.
	EventRequest EventKind = 1 + iota
	// EventReply: the peer accepted. Peer and PrivateData (196 bytes) are set. The caller must make the queue pair
	// ready, then call Confirm.
	EventReply
	// EventEstablished: the peer confirmed our Accept.
	EventEstablished
	// EventRejected: the peer rejected, or withdrew its request. Reason and PrivateData (148 bytes) are set.
	EventRejected
	// EventUnreachable: the exchange was given up because the peer does not answer, or, with Reason
	// RejectNoResources, because its request was dropped for a newer one, or, with RejectTimeout, because the caller
	// did not answer the request.
	EventUnreachable
	// EventDisconnected: the peer ended the connection, or, with Reason RejectStale, no longer has it.
	EventDisconnected
	// EventClosed: the ID is no longer valid, and the queue pair number may be used again.
	EventClosed
)

var eventNames = [...]string{"none", "request", "reply", "established", "rejected", "unreachable", "disconnected", "closed"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return "unknown event"
}

// An Event is something that happened to a connection.
type Event struct {
	Kind        EventKind
	ID          wire.CommID // our communication ID of the connection
	Peer        Peer
	Reason      rdmatransport.RejectReason
	PrivateData []byte // owned by the receiver
}

// Peer holds what the exchange said about the other side. Depths are those of our side.
type Peer struct {
	Addr    netip.AddrPort // address, and RDMA CM port
	Service wire.ServiceID
	GUID    wire.GUID
	QPN     rdmatransport.QPN

	StartingPSN        wire.PSN // at which we must start sending (IBTA 12.7.31)
	InitiatorDepth     uint8    // READs and atomics we may have in flight
	ResponderResources uint8    // READs and atomics the peer may have in flight
	RetryCount         uint8    // as requested by the active side
	RNRRetryCount      uint8    // for our sends
	PathMTU            wire.MTU
	AckTimeout         wire.Timeout // of the active side's sends; includes its estimate of the round trip
	AckDelay           wire.Timeout // EventReply: how long the peer may delay an acknowledgement
	FlowControl        bool
	TrafficClass       uint8
	FlowLabel          uint32
}

// A Send is a packet to send from queue pair 1.
type Send struct {
	To           netip.Addr // UDP port wire.Port
	TrafficClass uint8
	Packet       wire.Packet // without ICRC; Payload is valid until the engine's next method
}
