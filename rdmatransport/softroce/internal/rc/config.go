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
	// Remote returns the n bytes at va that key grants the peer with all of need.
	Remote(key rdmatransport.RKey, va uint64, n uint32, need rdmatransport.Access) ([]byte, bool)
	// Written is called with the bytes that a peer has written by a key.
	Written(key rdmatransport.RKey, n uint32)
	// Live reports whether a key may be invalidated.
	Live(key rdmatransport.RKey) bool
	// Invalidate kills a key that may be invalidated, and reports whether it did.
	Invalidate(key rdmatransport.RKey) bool
	// Bind opens a window over s, and reports whether s allows it.
	Bind(w rdmatransport.Window, s rdmatransport.SGE, access rdmatransport.Access) bool
}

// Config is what a queue pair is created with. Depths are at least 1.
type Config struct {
	QPN     rdmatransport.QPN
	MaxSend int // send work requests outstanding
	MaxRecv int // receives posted; no matter with Shared
	MaxSGE  int // scatter list elements a request
	// NoRemote refuses the peer's WRITEs, READs and atomics as invalid requests.
	NoRemote bool

	Shared *SharedRecv // where receives come from; nil: posted on the queue pair
	EndID  uint64      // with Shared: of the completion that reports the end

	Keys        Keys
	Completions *Completions
	Counters    *Counters
	Store       *Store  // keeps packets that arrive out of order
	Budget      *Budget // receive budget of the shard; nil: unbounded

	Rate RateConfig // congestion control; zero: the defaults
}

// Peer is what the connection exchange settled.
type Peer struct {
	// Addr is where the peer is, as far as that tells it from others: packets that it sends
	// out of order have a share of the store that is the peer's.
	Addr     netip.Prefix      `json:"-"`
	QPN      rdmatransport.QPN `json:"qpn"`
	SendPSN  wire.PSN          `json:"send-psn"` // our first
	RecvPSN  wire.PSN          `json:"recv-psn"` // the peer's first
	PathMTU  int               `json:"path-mtu"` // payload bytes a packet: 256 to 4096
	PKey     uint16            `json:"pkey"`
	ReadsOut int               `json:"reads-out"` // READs and atomics we may have in flight; 0: none allowed
	ReadsIn  int               `json:"reads-in"`  // READs and atomics the peer may have in flight

	RetryCount    uint8         `json:"retries"`     // 0 to 7
	RNRRetryCount uint8         `json:"rnr-retries"` // 0 to 7; 7: without end
	AckTimeout    time.Duration `json:"ack-timeout"` // negotiated; with RetryCount it bounds how long a silent peer is borne
	RNRDelay      uint8         `json:"rnr-delay"`   // timer code of the RNR NAKs we send

	// Own says that the peer runs this engine: it keeps out-of-order packets.
	Own bool `json:"own"`
	// MaxWindow bounds the bytes of SEND and WRITE data in flight, and as much of
	// READ responses; 0: 512 KiB each.
	MaxWindow int `json:"max-window,omitempty"`
}

// Budget bounds what the peers of one shard may be asked to send: the bytes of
// READ responses in flight, counted as the receive buffer counts them.
type Budget struct {
	Limit int
	used  int
}

// take reserves n bytes. A single request larger than the limit passes alone.
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

// Used is the number of bytes reserved.
func (b *Budget) Used() int { return b.used }

// truesize estimates what one packet of n payload bytes occupies in a socket's
// receive buffer: 832 bytes for a small packet, 8.4 KB for 4 KiB (measured).
func truesize(n int) int { return 768 + 2*n }

// Counters count what a shard's queue pairs met. The shard owns them.
type Counters struct {
	Retransmits        uint64 // request packets sent again
	Timeouts           uint64 // retransmission timers that fired
	SequenceNAKsSent   uint64
	SequenceNAKsGot    uint64
	RNRNAKsSent        uint64
	RNRNAKsGot         uint64
	ErrorNAKsSent      uint64
	ErrorNAKsGot       uint64
	Duplicates         uint64 // request packets seen before
	DuplicateResponses uint64
	OutOfOrder         uint64 // packets kept for later
	StoreFull          uint64 // packets dropped because nothing more could be kept
	StoreTaken         uint64 // packets given up for a peer, or a queue pair, that kept fewer
	FarAhead           uint64 // packets dropped as too far ahead
	GhostAcks          uint64 // acknowledgements of what was never sent
	BadAcks            uint64 // reserved syndromes, or with payload that is no bitmap
	OldAcks            uint64 // acknowledgements of what was acknowledged before
	StaleDuplicates    uint64 // READs or atomics repeated after they were forgotten
	WrongState         uint64 // packets for a queue pair that is not connected
	WrongPKey          uint64
	NotRC              uint64 // packets of another transport service
	AckRepeats         uint64
	CNPsSent           uint64
	CNPsGot            uint64
	RateReductions     uint64

	RoundTrips latency.Histogram // acknowledgements of what was sent once (Karn), at most one sample at a time
}
