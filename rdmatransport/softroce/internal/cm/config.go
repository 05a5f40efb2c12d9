package cm

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Config describes an engine. A zero field takes the default.
type Config struct {
	Addr netip.Addr    // required: this endpoint's address
	GUID wire.GUID     // of the channel adapter; peers may recognise us by it
	Rand func() uint32 // required: unpredictable; the source of communication IDs

	TransactionHigh uint32   // upper half of transaction IDs
	FirstPSN        wire.PSN // PSN of the first packet sent from queue pair 1

	MaxMTU          wire.MTU     // REQs with a larger MTU are rejected with reason 26; default 4096 bytes
	ResponseTimeout wire.Timeout // within which either side must answer a CM message; default 18 (1.07 s)
	MaxRetries      uint8        // maximum repetitions of a CM message, 1 to 15; default 15
	ServiceTimeout  wire.Timeout // sent in MRAs, and the maximum time to answer a request; default 24 (69 s)

	MaxHalfOpen        int // maximum number of connections begun by peers and not confirmed; default 4096
	MaxHalfOpenPerPeer int // the same per address, or per /64 network for IPv6; default 512
	// ConfirmTimeout is the maximum time from our REP to the peer's RTU or first data, whatever timeouts its REQ
	// contains, unless the peer asks once for more time (MRA); default 10 s.
	ConfirmTimeout time.Duration
}

func (c *Config) setDefaults() {
	c.Addr = c.Addr.Unmap()
	setDefault(&c.MaxMTU, wire.MTUFor(4096))
	setDefault(&c.ResponseTimeout, 18)
	setDefault(&c.MaxRetries, 15)
	setDefault(&c.ServiceTimeout, 24)
	setDefault(&c.MaxHalfOpen, 4096)
	setDefault(&c.MaxHalfOpenPerPeer, 512)
	setDefault(&c.ConfirmTimeout, 10*time.Second)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Limits on timeouts requested by a peer.
const (
	minInterval  = 50 * time.Millisecond
	maxInterval  = 9 * time.Second
	maxTimeWait  = 2 * time.Second
	maxRefused   = 10 * time.Second
	maxMRAExtend = 2 * time.Minute
)

// ConnectParams holds the parameters of a connection to make. A zero field takes the default if it has one.
type ConnectParams struct {
	To         netip.AddrPort // address and port of the service
	SourcePort uint16         // reported to the peer's consumer

	QPN                rdmatransport.QPN
	StartingPSN        wire.PSN     // at which the peer must start sending to us
	ResponderResources uint8        // READs and atomics this side serves at a time
	InitiatorDepth     uint8        // READs and atomics this side wants to have in flight
	RetryCount         uint8        // 0 to 7
	RNRRetryCount      uint8        // 0 to 7
	PathMTU            wire.MTU     // required
	AckTimeout         wire.Timeout // default 17 (0.54 s)
	FlowControl        bool         // end-to-end credits are supported
	TrafficClass       uint8
	FlowLabel          uint32 // 20 bits
	HopLimit           uint8  // default 64
	PrivateData        []byte // at most 56 bytes
}

// AcceptParams holds the parameters of the answer to a request.
type AcceptParams struct {
	QPN                rdmatransport.QPN
	StartingPSN        wire.PSN // at which the peer must start sending to us
	ResponderResources uint8    // limit; the REP offers the smaller of it and the peer's InitiatorDepth
	InitiatorDepth     uint8    // limit; the REP has the smaller of it and the peer's ResponderResources
	RNRRetryCount      uint8    // 0 to 7
	AckDelay           wire.Timeout
	FlowControl        bool
	PrivateData        []byte // at most 196 bytes
}

// OriginOf returns what counts as one address for limits: for IPv6 the /64 network, since a host has 2^64 addresses.
func OriginOf(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	p, _ := a.WithZone("").Prefix(64) // cannot fail
	return p.Addr()
}

// Counters holds the counters of an engine. Only the engine's owner may read them.
type Counters struct {
	Sent        uint64 // messages
	Received    uint64 // well-formed messages
	Retransmits uint64
	Timeouts    uint64 // exchanges given up

	NotUDSend        uint64 // dropped: wrong opcode
	WrongQPN         uint64 // dropped: not to queue pair 1
	WrongQKey        uint64 // dropped
	WrongPKey        uint64 // dropped
	BadMAD           uint64 // dropped: length, version, class or method
	UnknownAttribute uint64 // dropped: unsupported message
	MalformedMessage uint64 // dropped: a field is invalid and no answer would help
	UnknownID        uint64 // dropped: no connection has these communication IDs
	SourceMismatch   uint64 // dropped, or rejected if a REQ: not from the connection's address
	WrongState       uint64 // dropped: not expected in the connection's state

	DuplicateREQ uint64
	DuplicateREP uint64
	DuplicateRTU uint64
	UnknownDREQ  uint64 // answered with a DREP

	InvalidService   uint64 // REQ rejected: no listener
	InvalidTransport uint64 // REQ rejected: not RC
	InvalidGID       uint64 // REQ rejected: not our address
	InvalidMTU       uint64 // REQ rejected
	InvalidIPHeader  uint64 // REQ rejected: unsupported version of the RDMA CM's header
	Stale            uint64 // connections ended because the peer uses their queue pair or ID for a newer one
	TooMany          uint64 // dropped: REQs, and DREQs without a connection, over the limit per address or in all
	Contested        uint64 // REQs with the queue pair or ID of an existing connection
	HalfOpenEvicted  uint64 // half-open requests rejected with reason 3 for a newer one
	HalfOpenMoved    uint64 // dropped without an answer because the device was moved
}
