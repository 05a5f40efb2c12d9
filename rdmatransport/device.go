package rdmatransport

import (
	"context"
	"net/netip"
)

// Attrs describes a device and its limits. All limits are inclusive.
type Attrs struct {
	Provider string // "softroce" or "verbs"
	Name     string // the device's name, for logs

	MaxQueueDepth int // work requests outstanding on one send or receive queue
	MaxShared     int // receives of one shared receive queue; 0: not supported
	MaxSGE        int // elements of one scatter list
	MaxReadSGE    int // elements of an RDMA READ's scatter list, if fewer (iWARP); 0: MaxSGE
	MaxInline     int // bytes of a send with FlagInline
	MaxMessage    int // bytes of one message
	MaxReadsOut   int // RDMA READs and atomics a queue pair may have in flight
	MaxReadsIn    int // RDMA READs and atomics a peer may have in flight towards this side
	Shards        int // completion queues the device can create
	Windows       bool
	Atomics       bool
	Immediate     bool // false for iWARP, which has no immediate data
	// Pins reports whether the device keeps using the pages that backed the memory when it was registered. If so, a
	// page that is released to the system (MADV_DONTNEED of madvise(2)) or mapped again is no longer the one that the
	// device reads and writes.
	Pins bool
	// Node is the NUMA node of the device, if the system reports it.
	Node NUMANode
}

// A NUMANode is a NUMA node of the machine, counted from 1; 0 means unknown.
type NUMANode int

// A Device is one RDMA endpoint: a port of an RNIC, or an IP address of softroce.
type Device interface {
	Attrs() Attrs

	// NewCompletionQueue creates the next completion queue. It fails if Attrs().Shards of them are open.
	NewCompletionQueue(CQConfig) (CompletionQueue, error)

	// NewDomain creates a protection domain. Keys of one domain are not valid on queue pairs of another.
	NewDomain() (Domain, error)

	// Listen listens on a port of the RDMA CM's TCP port space at the given address, which must be one of the
	// device's. Port 0 selects a free port.
	Listen(netip.AddrPort) (Listener, error)

	// Connect performs the active side of the connection exchange for a queue pair on which the first receives have
	// been posted, and returns the peer's reply. It blocks until the peer replies, rejects ([*RejectError]) or does
	// not answer ([ErrUnreachable]), or until ctx ends. If Connect returns nil, the queue pair can be used; otherwise
	// it must be closed. Connect fails if the queue pair has been connected before, or a connection was attempted.
	Connect(ctx context.Context, qp QueuePair, to netip.AddrPort, p ConnParams) (ConnReply, error)

	// Close closes the device with all its objects, and sends a disconnect request to every peer. Completion queues
	// must not be polled afterwards. The device and its domains then create nothing and return [ErrClosed].
	Close() error
}

// A Domain is a protection domain.
type Domain interface {
	// Register makes b usable in scatter lists and, as access allows, by peers. b must stay allocated until
	// Deregister.
	Register(b []byte, access Access) (MemoryRegion, error)

	// NewQueuePair creates a queue pair in the initial state: receives can be posted, sends cannot. It must be called
	// by the owner of cfg.CQ.
	NewQueuePair(cfg QPConfig) (QueuePair, error)

	// NewSharedReceiveQueue creates a receive queue for several queue pairs of the domain. It must be called by the
	// owner of cfg.CQ.
	NewSharedReceiveQueue(cfg SRQConfig) (SharedReceiveQueue, error)

	// Close frees the domain. Its queue pairs must be closed and its memory deregistered: Close fails while a memory
	// region is registered. Later calls of other methods return [ErrClosed]; repeated calls of Close do nothing.
	Close() error
}

// A MeasuredDomain is a Domain that knows how much memory its queue pairs take, so that a consumer can limit that.
type MeasuredDomain interface {
	Domain
	// QueuePairMemory returns how many bytes of this process's memory a queue pair takes, without memory that is
	// registered and without inline data. It may be called from any goroutine.
	QueuePairMemory(QPConfig) int
}

// A MemoryRegion is registered memory.
type MemoryRegion interface {
	Bytes() []byte
	LKey() LKey
	RKey() RKey
	// IOVA returns the address by which a peer refers to the region's first byte.
	IOVA() uint64
	// Deregister invalidates the region's keys. It fails while windows are bound to the region, unless the provider
	// invalidates their keys too. Once it returns nil, the device no longer accesses the memory, even on behalf of a
	// peer, and the memory may be unmapped. No posted work request may still use the keys.
	Deregister() error
}

// A Window gives one peer access to a part of a memory region under a key of its own: a type 2B memory window, valid
// on the queue pair that it was allocated for. A single work request binds it (OpBindWindow) and another invalidates
// it (OpInvalidate, or the peer's SEND with invalidate).
type Window interface {
	// RKey returns the key of the last posted bind. Each bind changes it.
	RKey() RKey
	// IOVA returns the address by which a peer refers to the window's first byte.
	IOVA() uint64
	Close() error
}

// A CountingWindow is a Window whose provider counts what the peer writes. softroce's windows do; an RNIC reports
// nothing.
type CountingWindow interface {
	Window
	// Written returns how many bytes the peer's RDMA WRITEs have written since the last bind. Bytes that are written
	// twice count twice. It must be called by the owner of the queue pair.
	Written() uint64
}

// QPConfig describes a queue pair. A zero field takes the default.
type QPConfig struct {
	CQ CompletionQueue // required: receives the completions of both queues

	MaxSend int // send queue depth; default 128
	MaxRecv int // receive queue depth; default 128; ignored with SharedRecv
	MaxSGE  int // default 2, limit Attrs.MaxSGE
	Windows int // maximum number of memory windows; default 0

	// SharedRecv is the shared receive queue from which the queue pair takes its receives. It must be of the same
	// domain and completion queue. Such a queue pair has no receives of its own whose flush would report its end.
	// Instead one completion with the ID EndID, OpSend and StatusFlushed follows those of its sends.
	SharedRecv SharedReceiveQueue
	EndID      uint64

	// NoRemote denies the peer any access to memory, whatever key it uses: its RDMA WRITEs, READs and atomics end the
	// connection.
	NoRemote bool
}

// A QueuePair is one reliable connection.
type QueuePair interface {
	QPN() QPN
	// PostSend queues work requests in order. On an error, none of wrs was queued.
	PostSend(wrs []SendWR) error
	// PostRecv queues receives in order. On an error, none of wrs was queued. It fails on a queue pair with a shared
	// receive queue.
	PostRecv(wrs []RecvWR) error
	NewWindow() (Window, error)

	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	// ReadDepth returns the negotiated number of RDMA READs that this side may have in flight, or 0 before the queue
	// pair is connected. Further READs wait in order.
	ReadDepth() int

	// Disconnect notifies the peer and moves the queue pair to the error state, which completes all posted work
	// requests with StatusFlushed. Repeated calls do nothing.
	Disconnect()
	// Err returns the reason why the queue pair left the connected state: nil if it has not, [ErrDisconnected] after
	// an orderly end by either side.
	Err() error
	// Close disconnects if necessary and frees the queue pair. Completions not yet polled are dropped, except those of
	// shared receives. The memory of posted work requests belongs to the caller again. PostSend, PostRecv
	// and NewWindow then return [ErrClosed].
	Close() error
}

// A MovingQueuePair is a QueuePair that can send posted data from other memory. softroce's can; an RNIC always reads
// the memory that was posted.
type MovingQueuePair interface {
	QueuePair
	// MoveSource applies to the outstanding work requests that were posted with the identifier id. Those that read
	// from the memory from now read from to instead, which must have the same content and length. If it returns true,
	// from is not read any more, not even for a retransmission.
	MoveSource(id uint64, from []byte, to SGE) bool
}

// SRQConfig describes a shared receive queue. A zero field takes the default.
type SRQConfig struct {
	CQ     CompletionQueue // required: the completion queue of all queue pairs that use the receives
	Depth  int             // receives posted and not completed; default 1024, limit Attrs.MaxShared
	MaxSGE int             // default 2, limit Attrs.MaxSGE
}

// A SharedReceiveQueue is a receive queue that several queue pairs share: an arriving message takes the oldest
// receive. It belongs to the shard of its queue pairs.
//
// A receive belongs to the shared queue until a message takes it, then to the message's queue pair until it
// completes, with the queue pair's number. When a queue pair ends, the receives that it has taken complete and the
// others stay in the queue. Completions of shared receives are not dropped when a queue pair is closed but become
// flushed ones, so that each receive is returned. The exception is a receive that the device had begun to fill when
// the queue pair ended, which some devices lose.
//
// While the queue is empty, every queue pair answers with an RNR NAK, and its peer tries again. Nothing keeps one
// peer from using all receives: the consumer has to limit how many each peer can hold.
type SharedReceiveQueue interface {
	// PostRecv queues receives in order. On an error, none of wrs was queued.
	PostRecv(wrs []RecvWR) error
	// Close frees the queue, whose queue pairs must be closed. The memory of posted receives belongs to the caller
	// again.
	Close() error
}

// CQConfig describes a completion queue. A zero field takes the default.
type CQConfig struct {
	Depth int // capacity in completions; default 4096; grows with the number of queue pairs
}

// A CompletionQueue collects completions of one shard's queue pairs and drives the provider.
type CompletionQueue interface {
	// Poll drives the provider, fills cs with completions, oldest first, and returns their number. It never blocks.
	// With an empty cs it only reads the clock (see Now).
	Poll(cs []Completion) int

	// Flush hands all posted work requests and pending acknowledgements to the network. The owner calls it once per
	// turn, after handling completions.
	Flush()

	// Wait blocks until Poll may find something, Wake is called, a descriptor given to Watch becomes readable, or d
	// nanoseconds have passed (negative: no limit). It may return early. Wait shares no state with the other methods.
	// While it blocks, another goroutine may become the owner, but must not call Wait too.
	Wait(d int64)

	// Due returns how long Poll need not be called, in nanoseconds: the time until the provider has something to do
	// on its own, such as a retransmission. It is 0 if there is something now and negative if there is no limit.
	Due() int64

	// Wake ends the current or else the next Wait. It may be called from any goroutine.
	Wake()

	// Watch adds a descriptor, such as an io_uring's eventfd. The descriptor ends a Wait once each time it becomes
	// readable: data that the owner leaves unread does not end another Wait. Providers without descriptors return an
	// error.
	Watch(fd int) error

	// Now returns the provider's monotonic clock as of the last Poll: nanoseconds since an arbitrary start.
	Now() int64

	// Busy reports whether the last Poll handled any traffic, with or without completions: a peer that reads our
	// memory is a reason to go on polling. An RNIC, which serves READs in hardware, reports false.
	Busy() bool

	// ReceiveBudget returns how many bytes peers may have in flight towards this shard before its receive buffer
	// could overflow; 0 means no limit (an RNIC).
	ReceiveBudget() int

	// Close frees the queue and drops completions that were not polled. The owner calls it once. The device can then
	// create another completion queue in its place.
	Close() error
}

// RefusedRequests counts connection requests that a device has dropped or refused on its own since it was opened, so
// that requests of one peer do not crowd out those of others.
type RefusedRequests struct {
	TooMany  uint64 `json:"too-many"`  // dropped unread: over the limit of an address or of the device
	Backlog  uint64 `json:"backlog"`   // refused because too many requests waited for Accept
	HalfOpen uint64 `json:"half-open"` // ended for newer requests before they were confirmed
}

// A RequestCounter is a device that counts refused connection requests. Its method may be called from any goroutine
// and does not block.
type RequestCounter interface {
	RefusedRequests() RefusedRequests
}

// A Counter is a named counter of a device.
type Counter struct {
	Name string `json:"name"`
	N    uint64 `json:"n"`
}

// A PacketCounter is a device that counts packets and their fates. Counters may be called from any goroutine. It
// always returns the same counters in the same order.
type PacketCounter interface {
	Counters() []Counter
}
