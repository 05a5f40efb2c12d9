package verbs

import (
	"net/netip"
	"time"
)

// MaxShards is the most completion queues that a device hands out.
const MaxShards = 64

// Config describes a device. A zero field takes the default.
type Config struct {
	// Addr is required: an IP address of the RDMA port. An IPv6 link-local one
	// needs its zone.
	Addr   netip.Addr
	Shards int // completion queues; default 1, limit MaxShards

	// ResolveTimeout bounds each of the two steps, address and route, that come
	// before a connection request. Default 2 s.
	ResolveTimeout time.Duration
	// AckTimeout is how long the device waits for an acknowledgement before it
	// sends again; rounded up to 4.096 µs times a power of two, as devices count.
	// Default: what the RDMA CM computes from the path, but 500 ms at most. On Ethernet
	// Linux 6.12 (CMA_IBOE_PACKET_LIFETIME) supposes that a packet lives for a second,
	// and had rdma_rxe wait for 4.3 s, nearly as long as a keep alive timeout. Connection
	// requests tell the peer.
	AckTimeout time.Duration
	// LooseWindows has the memory windows of rdma_rxe used too. That device (Linux
	// 6.12) holds a window to its region's bounds only, and when it has to send a
	// request again it also repeats the binds after it, which fails and ends the
	// connection. Without, such a device says that it has no windows.
	LooseWindows bool
}
