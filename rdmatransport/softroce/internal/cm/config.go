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
	GUID wire.GUID     // of the channel adapter, by which peers may know us
	Rand func() uint32 // required: unpredictable; communication IDs are drawn from it

	TransactionHigh uint32   // upper half of the transaction IDs
	FirstPSN        wire.PSN // of the packets sent from queue pair 1

	MaxMTU          wire.MTU     // larger requests get REJ 26; default 4096 bytes
	ResponseTimeout wire.Timeout // within which either side is to answer a CM message; default 18 (1.07 s)
	MaxRetries      uint8        // repetitions of a CM message, 1 to 15; default 15
	ServiceTimeout  wire.Timeout // asked for with an MRA, and the limit to answer a request; default 24 (69 s)

	MaxHalfOpen        int // connections that peers have begun and not confirmed; default 4096
	MaxHalfOpenPerPeer int // the same of one address, of IPv6 its first 64 bits; default 512
	// ConfirmTimeout is how long a peer may take from our REP to its RTU or first data,
	// whatever times its REQ names, unless it says once that it needs longer (MRA);
	// default 10 s.
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

// Bounds of what a peer's timeouts are taken for.
const (
	minInterval  = 50 * time.Millisecond
	maxInterval  = 9 * time.Second
	maxTimeWait  = 2 * time.Second
	maxRefused   = 10 * time.Second
	maxMRAExtend = 2 * time.Minute
)

// ConnectParams describe a connection to make. A zero field takes the default
// where one is named.
type ConnectParams struct {
	To         netip.AddrPort // address, and port of the service
	SourcePort uint16         // given to the peer's consumer

	QPN                rdmatransport.QPN
	StartingPSN        wire.PSN     // at which the peer is to begin sending to us
	ResponderResources uint8        // READs and atomics we serve at a time
	InitiatorDepth     uint8        // READs and atomics we want to have in flight
	RetryCount         uint8        // 0 to 7
	RNRRetryCount      uint8        // 0 to 7
	PathMTU            wire.MTU     // required
	AckTimeout         wire.Timeout // default 17 (0.54 s)
	FlowControl        bool         // end-to-end credits are understood
	TrafficClass       uint8
	FlowLabel          uint32 // 20 bits
	HopLimit           uint8  // default 64
	PrivateData        []byte // at most 56 bytes
}

// AcceptParams describe the answer to a request.
type AcceptParams struct {
	QPN                rdmatransport.QPN
	StartingPSN        wire.PSN // at which the peer is to begin sending to us
	ResponderResources uint8    // limit; the smaller of it and the peer's InitiatorDepth is promised
	InitiatorDepth     uint8    // limit; the smaller of it and the peer's ResponderResources is used
	RNRRetryCount      uint8    // 0 to 7
	AckDelay           wire.Timeout
	FlowControl        bool
	PrivateData        []byte // at most 196 bytes
}

// OriginOf is what counts as one address: whoever has an IPv6 address has 2^64 of them.
func OriginOf(a netip.Addr) netip.Addr {
	if a.Is4() {
		return a
	}
	p, _ := a.WithZone("").Prefix(64) // which cannot fail
	return p.Addr()
}

// Counters count what an engine met. The owner of the engine may read them.
type Counters struct {
	Sent        uint64 // messages
	Received    uint64 // messages that are well formed
	Retransmits uint64
	Timeouts    uint64 // exchanges given up

	NotUDSend        uint64 // dropped: another opcode
	WrongQPN         uint64 // dropped: not to queue pair 1
	WrongQKey        uint64 // dropped
	WrongPKey        uint64 // dropped
	BadMAD           uint64 // dropped: length, version, class or method
	UnknownAttribute uint64 // dropped: a message that is not supported
	MalformedMessage uint64 // dropped: a field that no answer could repair
	UnknownID        uint64 // dropped: no connection has these communication IDs
	SourceMismatch   uint64 // dropped, or refused if a REQ: not from the connection's address
	WrongState       uint64 // dropped: the connection does not wait for it

	DuplicateREQ uint64
	DuplicateREP uint64
	DuplicateRTU uint64
	UnknownDREQ  uint64 // answered with a DREP all the same

	InvalidService   uint64 // REQ refused: nobody listens
	InvalidTransport uint64 // REQ refused: not RC
	InvalidGID       uint64 // REQ refused: not our address
	InvalidMTU       uint64 // REQ refused
	InvalidIPHeader  uint64 // REQ refused: the RDMA CM's header is of another version
	Stale            uint64 // connections ended because the peer has their queue pair, or ID, in a newer one
	TooMany          uint64 // dropped: REQs, and DREQs of no connection, beyond what an address, or all, may send
	Contested        uint64 // REQs that name the queue pair, or the ID, of a connection that stands
	HalfOpenEvicted  uint64 // requests dropped with REJ 3 for a newer one
	HalfOpenMoved    uint64 // dropped without an answer since the device was moved
}
