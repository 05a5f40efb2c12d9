package rc

import (
	"net/netip"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/latency"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// Keys resolves memory keys for one queue pair.
type Keys interface {
	// Local reports whether key covers buf, for writing if write is set.
	Local(key rdmatransport.LKey, buf []byte, write bool) bool
	// Remote returns the n bytes at va, if key grants the peer all rights in need.
	Remote(key rdmatransport.RKey, va uint64, n uint32, need rdmatransport.Access) ([]byte, bool)
	// Written is called after a peer has written n bytes with key.
	Written(key rdmatransport.RKey, n uint32)
	// Live reports whether a key may be invalidated.
	Live(key rdmatransport.RKey) bool
	// Invalidate invalidates a key for which Live returns true, and reports whether it did.
	Invalidate(key rdmatransport.RKey) bool
	// Bind binds a window to s, and reports whether s allows it.
	Bind(w rdmatransport.Window, s rdmatransport.SGE, access rdmatransport.Access) bool
}

// Config is the configuration of a queue pair. Depths are at least 1.
type Config struct {
	QPN     rdmatransport.QPN
	MaxSend int // maximum number of outstanding send work requests
	MaxRecv int // maximum number of posted receives; ignored with Shared
	MaxSGE  int // maximum number of scatter list elements per request
	// NoRemote refuses the peer's WRITEs, READs and atomics as invalid requests.
	NoRemote bool

	Shared *SharedRecv // source of receives; nil: they are posted on the queue pair
	EndID  uint64      // with Shared: ID of the completion that reports the end

	Keys        Keys
	Completions *Completions
	Counters    *Counters
	Store       *Store  // keeps out-of-order packets
	Budget      *Budget // receive budget of the shard; nil: unlimited

	Rate RateConfig // congestion control; zero: the defaults
}

// Peer holds the parameters settled by the connection exchange.
type Peer struct {
	// Addr identifies the peer: out-of-order packets from the same Addr share one peer's part of the store.
	Addr     netip.Prefix      `json:"-"`
	QPN      rdmatransport.QPN `json:"qpn"`
	SendPSN  wire.PSN          `json:"send-psn"` // our first PSN
	RecvPSN  wire.PSN          `json:"recv-psn"` // the peer's first PSN
	PathMTU  int               `json:"path-mtu"` // payload bytes per packet: 256 to 4096
	PKey     uint16            `json:"pkey"`
	ReadsOut int               `json:"reads-out"` // READs and atomics we may have in flight; 0: none allowed
	ReadsIn  int               `json:"reads-in"`  // READs and atomics the peer may have in flight

	RetryCount    uint8         `json:"retries"`     // 0 to 7
	RNRRetryCount uint8         `json:"rnr-retries"` // 0 to 7; 7: unlimited
	AckTimeout    time.Duration `json:"ack-timeout"` // negotiated; times RetryCount+1, how long a silent peer is tolerated
	RNRDelay      uint8         `json:"rnr-delay"`   // timer code of the RNR NAKs we send

	// Own means that the peer is softroce, which keeps out-of-order packets.
	Own bool `json:"own"`
	// MaxWindow is the maximum number of bytes of SEND and WRITE data in flight, and likewise of READ responses; 0:
	// 512 KiB each.
	MaxWindow int `json:"max-window,omitempty"`
}

// Budget limits the READ responses that the peers of one shard may have in flight, in bytes of receive buffer.
type Budget struct {
	Limit int
	used  int
}

// take reserves n bytes. A request larger than the limit is allowed if it is alone.
func (b *Budget) take(n int) bool {
	if b == nil {
		return true
	}
	if b.used > 0 && b.used+n > b.Limit {
		return false
	}
	b.used += n
	return true
}

func (b *Budget) give(n int) {
	if b != nil {
		b.used -= n
	}
}

// Used returns the number of bytes reserved.
func (b *Budget) Used() int { return b.used }

// truesize estimates the receive buffer space, in bytes, of one packet with n payload bytes: 832 bytes for a small
// packet, 8.4 KB for 4 KiB (measured).
func truesize(n int) int { return 768 + 2*n }

// Counters holds the counters of a shard's queue pairs. The shard owns them.
type Counters struct {
	Retransmits        uint64 // request packets sent again
	Timeouts           uint64 // retransmission timers that fired
	SequenceNAKsSent   uint64
	SequenceNAKsGot    uint64
	RNRNAKsSent        uint64
	RNRNAKsGot         uint64
	ErrorNAKsSent      uint64
	ErrorNAKsGot       uint64
	Duplicates         uint64 // request packets received again
	DuplicateResponses uint64
	OutOfOrder         uint64 // packets received out of order and kept
	StoreFull          uint64 // packets dropped because the store was full
	StoreTaken         uint64 // packets dropped in favour of a peer or queue pair that kept fewer
	FarAhead           uint64 // packets dropped as too far ahead
	GhostAcks          uint64 // acknowledgements of packets never sent
	BadAcks            uint64 // acknowledgements with a reserved syndrome or an invalid payload
	OldAcks            uint64 // acknowledgements older than an earlier one
	StaleDuplicates    uint64 // repeated READs or atomics that are no longer remembered
	WrongState         uint64 // packets for a queue pair that is not connected
	WrongPKey          uint64
	NotRC              uint64 // packets of another transport service
	AckRepeats         uint64
	CNPsSent           uint64
	CNPsGot            uint64
	RateReductions     uint64

	RoundTrips latency.Histogram // acknowledgements of packets sent once (Karn), at most one sample at a time
}
