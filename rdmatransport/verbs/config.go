package verbs

import (
	"net/netip"
	"time"
)

// MaxShards is the maximum number of completion queues of a device.
const MaxShards = 64

// Config describes a device. A zero field takes the default.
type Config struct {
	// Addr is required: an IP address of the RDMA port. An IPv6 link-local address needs its zone.
	Addr   netip.Addr
	Shards int // completion queues; default 1, limit MaxShards

	// ResolveTimeout is the timeout of each of the two steps, address and route, that precede a connection request.
	// Default 2 s.
	ResolveTimeout time.Duration
	// AckTimeout is how long the device waits for an acknowledgement before it retransmits, rounded up to 4.096 µs
	// times a power of two, the unit of devices. Connection requests carry it to the peer. Default: the RDMA CM's
	// value for the path, but at most 500 ms. On Ethernet, Linux 6.12 assumes a packet lifetime of one second
	// (CMA_IBOE_PACKET_LIFETIME), so that rdma_rxe would wait for 4.3 s, nearly as long as a keep alive timeout.
	AckTimeout time.Duration
	// LooseWindows enables the memory windows of rdma_rxe. That device (Linux 6.12) checks accesses only against the
	// bounds of the window's region. When it retransmits a request, it also repeats later binds, which fails and ends
	// the connection. Without LooseWindows, such a device reports no windows.
	LooseWindows bool
}
