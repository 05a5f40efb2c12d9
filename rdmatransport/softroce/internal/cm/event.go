package cm

import (
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// EventKind says what happened.
type EventKind uint8

const (
	// EventRequest: a peer wants to connect. Peer and PrivateData (56 bytes)
	// are set. Answer with Accept or Reject.
	EventRequest EventKind = 1 + iota
	// EventReply: the peer accepted. Peer and PrivateData (196 bytes) are set.
	// Make the queue pair ready, then call Confirm.
	EventReply
	// EventEstablished: the peer confirmed our Accept.
	EventEstablished
	// EventRejected: the peer refused, or withdrew its request. Reason and
	// PrivateData (148 bytes) are set.
	EventRejected
	// EventUnreachable: the exchange was given up: the peer is silent, or, with
	// Reason RejectNoResources, its request made room for a newer one, or, with
	// RejectTimeout, nobody answered the request.
	EventUnreachable
	// EventDisconnected: the peer ended the connection, or, with Reason
	// RejectStale, has forgotten it.
	EventDisconnected
	// EventClosed: the ID is dead, and its queue pair number may be used again.
	EventClosed
)

var eventNames = [...]string{"none", "request", "reply", "established", "rejected", "unreachable", "disconnected", "closed"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return "unknown event"
}

// An Event is one thing that happened to a connection.
type Event struct {
	Kind        EventKind
	ID          wire.CommID // ours, which names the connection
	Peer        Peer
	Reason      rdmatransport.RejectReason
	PrivateData []byte // the receiver's to keep
}

// Peer is what the exchange said about the other side. Depths are those of our
// side: what we may, and must, do.
type Peer struct {
	Addr    netip.AddrPort // address, and port as the RDMA CM knows it
	Service wire.ServiceID
	GUID    wire.GUID
	QPN     rdmatransport.QPN

	StartingPSN        wire.PSN // at which we are to begin sending (IBTA 12.7.31)
	InitiatorDepth     uint8    // READs and atomics we may have in flight
	ResponderResources uint8    // READs and atomics the peer may have in flight
	RetryCount         uint8    // as the active side asked
	RNRRetryCount      uint8    // for our sends
	PathMTU            wire.MTU
	AckTimeout         wire.Timeout // of the active side's sends: includes its view of the round trip
	AckDelay           wire.Timeout // EventReply: by which the peer may delay an acknowledgement
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
