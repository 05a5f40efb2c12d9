package rdmatransport

import (
	"context"
	"net/netip"
)

// Attrs are the limits of a device. All are inclusive.
type Attrs struct {
	Provider string // "softroce" or "verbs"
	Name     string // the device's name, for logs

	MaxQueueDepth int // work requests outstanding on one send or receive queue
	MaxShared     int // receives of one shared receive queue; 0: the device has none
	MaxSGE        int // elements of one scatter list
	MaxReadSGE    int // of what an RDMA READ fills, where those are fewer (iWARP); 0: MaxSGE
	MaxInline     int // bytes of a FlagInline send
	MaxMessage    int // bytes of one message
	MaxReadsOut   int // RDMA READs and atomics a queue pair may have in flight
	MaxReadsIn    int // RDMA READs and atomics a peer may have in flight to us
	Shards        int // completion queues the device can create
	Windows       bool
	Atomics       bool
	Immediate     bool // false on iWARP, which has no immediate data
	// Pins says that the device holds on to the pages that registered memory has at
	// the time: one that is given back to the system (MADV_DONTNEED of madvise(2)) or
	// mapped anew is no longer what the device reads and writes.
	Pins bool
	// Node is the NUMA node that the device is at, where the system says so.
	Node NUMANode
}

// A NUMANode is a NUMA node of the machine, counted from 1; 0 is one that nobody knows.
type NUMANode int

// A Device is one RDMA endpoint: an RNIC's port, or an address on which
// softroce answers.
type Device interface {
	Attrs() Attrs

	// NewCompletionQueue creates the next completion queue. It fails once
	// Attrs().Shards of them are open.
	NewCompletionQueue(CQConfig) (CompletionQueue, error)

	// NewDomain creates a protection domain: keys of one domain are worthless
	// to queue pairs of another.
	NewDomain() (Domain, error)

	// Listen announces a port of the RDMA CM's TCP port space at the address,
	// which must be one of the device's. Port 0 picks a free one.
	Listen(netip.AddrPort) (Listener, error)

	// Connect performs the active side of the connection exchange for a queue
	// pair that has posted its first receives, and returns what the peer
	// answered. It blocks until then, until ctx ends, or until the peer refuses
	// ([*RejectError]) or stays silent ([ErrUnreachable]). The queue pair is
	// usable when Connect returns nil, and must be closed when it does not: one that has
	// been connected, or tried, is an error.
	Connect(ctx context.Context, qp QueuePair, to netip.AddrPort, p ConnParams) (ConnReply, error)

	// Close tears everything of the device down, with a disconnect request to
	// every peer. Completion queues must no longer be polled afterwards. What the device and its domains are
	// asked for is [ErrClosed] then.
	Close() error
}

// A Domain is a protection domain.
type Domain interface {
	// Register makes b usable in scatter lists and, as access allows, by peers.
	// b must stay allocated until Deregister.
	Register(b []byte, access Access) (MemoryRegion, error)

	// NewQueuePair creates a queue pair in the initial state: receives can be
	// posted, sends cannot. Called by the owner of cfg.CQ.
	NewQueuePair(cfg QPConfig) (QueuePair, error)

	// NewSharedReceiveQueue creates a queue of receives for several queue pairs of the
	// domain. Called by the owner of cfg.CQ.
	NewSharedReceiveQueue(cfg SRQConfig) (SharedReceiveQueue, error)

	// Close frees the domain, whose queues are closed and whose memory is deregistered: it fails while some
	// memory is not. What the domain is asked for afterwards is [ErrClosed]; repeated calls do nothing.
	Close() error
}

// A MemoryRegion is registered memory.
type MemoryRegion interface {
	Bytes() []byte
	LKey() LKey
	RKey() RKey
	// IOVA is the address by which a peer names the region's first byte.
	IOVA() uint64
	// Deregister kills the keys, and those of windows over the region, or fails while there are such. When
	// it returns nil the device is done with the memory, whatever a peer was doing with it: it may be unmapped.
	// No posted request may still name the keys.
	Deregister() error
}

// A Window gives one peer access to a part of a memory region under a key of
// its own, which a single work request opens (OpBindWindow) and closes
// (OpInvalidate, or the peer's SEND with invalidate): a type 2B memory window,
// valid on the queue pair that it was allocated for.
type Window interface {
	// RKey is the key of the last posted bind; each bind changes it.
	RKey() RKey
	// IOVA is the address by which a peer names the window's first byte.
	IOVA() uint64
	Close() error
}

// A CountingWindow is a Window whose provider sees what a peer does with it. softroce's
// are; an RNIC reports nothing.
type CountingWindow interface {
	Window
	// Written is how many bytes the peer's RDMA WRITEs have brought since the last bind:
	// what was written twice counts twice. The owner of the queue pair asks.
	Written() uint64
}

// QPConfig describes a queue pair. A zero field takes the default.
type QPConfig struct {
	CQ CompletionQueue // required: completions of both queues go there

	MaxSend int // send queue depth; default 128
	MaxRecv int // receive queue depth; default 128; no matter with SharedRecv
	MaxSGE  int // default 2, limit Attrs.MaxSGE
	Windows int // memory windows that may be allocated; default 0

	// SharedRecv, of the same domain and completion queue, is where the queue pair takes
	// its receives from. It has none of its own then, whose flush would report its end:
	// instead a completion with the identifier EndID does, of OpSend with StatusFlushed,
	// once, after those of its sends.
	SharedRecv SharedReceiveQueue
	EndID      uint64

	// NoRemote gives the peer no access to memory, whatever key it names: its
	// RDMA WRITEs, READs and atomics end the connection.
	NoRemote bool
}

// A QueuePair is one reliable connection.
type QueuePair interface {
	QPN() QPN
	// PostSend queues requests in order. On an error nothing of wrs was queued.
	PostSend(wrs []SendWR) error
	// PostRecv queues receives in order. On an error nothing of wrs was queued. It
	// fails on a queue pair with shared receives.
	PostRecv(wrs []RecvWR) error
	NewWindow() (Window, error)

	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	// ReadDepth is how many RDMA READs this side may have in flight, as
	// negotiated; 0 before the connection is made. Further ones wait in order.
	ReadDepth() int

	// Disconnect notifies the peer and moves to the error state, which completes
	// all posted requests with StatusFlushed. Repeated calls do nothing.
	Disconnect()
	// Err says why the queue pair left the connected state: nil while it has
	// not, [ErrDisconnected] after an orderly end by either side.
	Err() error
	// Close disconnects where needed and frees the queue pair. Completions not
	// yet polled are dropped, but for those of shared receives; the memory of posted
	// requests is the caller's again. What the queue pair is asked for afterwards is [ErrClosed].
	Close() error
}

// A MovingQueuePair is a QueuePair that can send posted data from elsewhere. softroce's
// can; an RNIC reads the memory that was posted.
type MovingQueuePair interface {
	QueuePair
	// MoveSource has the requests that were posted with the identifier, and have not
	// completed, read from to what they would have read from the memory from, which has
	// the same content and length. When it returns true nothing of from is read any more,
	// also where a packet is lost.
	MoveSource(id uint64, from []byte, to SGE) bool
}

// SRQConfig describes a shared receive queue. A zero field takes the default.
type SRQConfig struct {
	CQ     CompletionQueue // required: that of all queue pairs which share the receives
	Depth  int             // receives posted and not completed; default 1024, limit Attrs.MaxShared
	MaxSGE int             // default 2, limit Attrs.MaxSGE
}

// A SharedReceiveQueue is receives that several queue pairs share: an arriving message
// takes the oldest. It belongs to the shard of its queue pairs.
//
// A receive is its queue's until a message takes it, then that queue pair's until it
// completes, with the queue pair's number. The end of a queue pair completes what that
// has taken and leaves the rest to the others. Completions of shared receives are not
// dropped when a queue pair is closed, but come as flushed, so that each receive comes
// back. Only a device may lose one, which it had begun to fill when the queue pair ended.
//
// Where there is none left, every queue pair answers that it is not ready, and its peer
// tries again. Nothing keeps a peer from taking them all: who shares receives has to
// bound how many each peer can hold.
type SharedReceiveQueue interface {
	// PostRecv queues receives in order. On an error nothing of wrs was queued.
	PostRecv(wrs []RecvWR) error
	// Close frees the queue, once its queue pairs are closed; the memory of what is
	// posted is the caller's again.
	Close() error
}

// CQConfig describes a completion queue. A zero field takes the default.
type CQConfig struct {
	Depth int // completions held; default 4096; grows with the queue pairs on it
}

// A CompletionQueue collects completions of one shard's queue pairs and drives
// the provider.
type CompletionQueue interface {
	// Poll moves the provider forward and fills cs with completions, oldest
	// first, returning how many. It never blocks. An empty cs asks for a reading
	// of the clock alone.
	Poll(cs []Completion) int

	// Flush hands everything posted and every acknowledgement owed to the
	// network. The owner calls it once per turn, after handling completions.
	Flush()

	// Wait blocks until Poll may find something, Wake is called, one of the
	// descriptors given to Watch is readable, or d (nanoseconds; negative: no
	// limit) has passed. It may return early. It touches nothing that the other
	// methods do: while it blocks another goroutine may become the owner, who
	// must not call it as well.
	Wait(d int64)

	// Due is how long the owner may leave Poll alone: nanoseconds until the
	// provider has something to do by itself, a retransmission say; 0 if it has
	// now, negative if never.
	Due() int64

	// Wake ends the current or else the next Wait. Any goroutine may call it.
	Wake()

	// Watch adds a descriptor (an io_uring's eventfd, say) that ends a Wait each time
	// it becomes readable, once: what the owner leaves unread ends no other Wait.
	// Providers without descriptors return an error.
	Watch(fd int) error

	// Now is the provider's monotonic clock, read once per Poll: nanoseconds
	// since an arbitrary start.
	Now() int64

	// Busy reports whether the last Poll moved something, completions or not:
	// a peer that reads our memory is a reason to go on polling. An RNIC, which
	// serves it without us, reports false.
	Busy() bool

	// ReceiveBudget is how many bytes peers may have in flight towards this
	// shard before its receive buffer could overflow; 0 means no bound (an RNIC).
	ReceiveBudget() int

	// Close frees the queue, and drops what was not polled. It is called once, by the owner: another
	// one may have its place afterwards.
	Close() error
}

// RefusedRequests counts connection requests, since a device was opened, that it dropped or
// refused by itself, so that those of one peer do not take the place of others.
type RefusedRequests struct {
	TooMany  uint64 `json:"too-many"`  // dropped unread: more than an address, or all, may send
	Backlog  uint64 `json:"backlog"`   // refused since too many waited to be accepted
	HalfOpen uint64 `json:"half-open"` // ended for newer ones before they were confirmed
}

// A RequestCounter is a device that counts them. Any goroutine may ask it, and it does not
// wait.
type RequestCounter interface {
	RefusedRequests() RefusedRequests
}

// A Counter is something that a device counts.
type Counter struct {
	Name string `json:"name"`
	N    uint64 `json:"n"`
}

// A PacketCounter is a device that counts packets, and what happens to them. Any goroutine may ask
// it. The counters are always the same, in the same order.
type PacketCounter interface {
	Counters() []Counter
}
