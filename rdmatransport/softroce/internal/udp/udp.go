// Package udp carries batches of datagrams for one RoCEv2 endpoint: UDP port
// 4791 of one IP address. Behind one interface stand Linux sockets ([Listen])
// and an in-memory network with faults ([Network]).
//
// # Sockets
//
// Each shard has a [Port]: a receive socket on 4791 in a reuse-port group, whose
// members a classic BPF program picks by the destination queue pair number in
// the datagram, and a few transmit sockets with source ports of their own from
// 0xC000 up. All are unconnected, bound to the exact address (the ICRC covers
// both) and never fragment, for which Linux sends IPv4 identification 0, or k in
// the k-th segment of a GSO send: the ICRC covers that too. Being unconnected
// they never hear of ICMP errors.
//
// The steering rule is: queue pair 1 belongs to the first port, every other
// number to port number mod shards. The kernel steers a merged datagram as a
// whole by its first packet, and a datagram that arrives while the group is
// being opened at random, so a port can receive what is another's: the user
// hands it on.
//
// One process owns an address. It holds an abstract unix socket named after the
// address, which lives in the network namespace and dies with the process: a
// reuse-port group alone would let a second process of the same user join it. The next
// owner gets that socket with the others ([Adopt]).
//
// # Blocking and the Go runtime
//
// Recv, Send and Wake never block and keep the runtime's P: a loop of nothing
// but them must call [runtime.Gosched] now and then (every 64 turns will do), or
// garbage collections and timers wait for it. Wait gives the P back. Nothing
// allocates in steady state.
//
// # Limits
//
// Linux only, 4.18 or later; GRO needs 5.0. No IP options, fragments, multicast
// or broadcast. Of IPv6 link-local addresses only those on the interface named by
// the endpoint's own zone are reached.
package udp

import (
	"net/netip"
	"os"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Bounds of one message, that is of one GSO send: older kernels refuse more
// segments, and one that with its Ethernet and IPv6 headers is 64 KiB or longer is
// split before it reaches the device, even loopback, at the cost of sending each
// packet alone.
const (
	MaxSegments = 64
	MaxBurst    = 65473 // bytes
)

// A Group is the ports of all shards of one address.
type Group interface {
	Addr() netip.Addr
	Ports() []Port
	// MTU is the largest IP packet, in bytes, that travels between the address
	// and dst: the least of what the route takes, of the MTU of the address's own
	// interface, and of that of dst's, if dst is an address of this machine. An invalid
	// dst asks for that of the address's own interface alone.
	MTU(dst netip.Addr) (int, error)
	// Node is the NUMA node of the address's interface, where the system says so.
	Node() rdmatransport.NUMANode
	// Warnings says in words what the system did not grant, and what the
	// administrator can do about it.
	Warnings() []string
	// Prepare takes the descriptors that Move returns, which then does not fail for want of any. Close
	// closes those that no Move has returned.
	Prepare() error
	// Move gives up the group for [Adopt] or [Readopt]: descriptors, in the order that Moved
	// says, and what else is to be known of them. Nobody receives or sends afterwards. Wait
	// is ended by Wake and watched descriptors alone, and Close closes what is of this group.
	Move() (Moved, []*os.File, error)
	// Close ends the use of all ports: no other method may be running, except
	// Wake, which does nothing from then on.
	Close() error
}

// A Port is one shard's view of the network. One goroutine at a time uses it;
// Wake alone is for others.
type Port interface {
	// NewBatch returns buffers for Recv of this port.
	NewBatch() *RecvBatch
	// Recv fills b with datagrams that have arrived and returns how many. It
	// never blocks. The data is the caller's to read and to change until the next
	// Recv with b.
	Recv(b *RecvBatch) (int, error)
	// Send hands messages to the network, in order for each source, and returns
	// how many it took: the rest is lost, as if on the way. It never blocks, and
	// is done with the pieces when it returns.
	Send(ms []Message) int
	// Wait blocks until a datagram may have arrived, Wake was called, a watched
	// descriptor is readable, or d has passed (negative: no limit). It may return
	// early.
	Wait(d time.Duration)
	// Wake ends the current Wait, or else the next. While nobody waits it costs
	// one atomic store.
	Wake()
	// Begin lets a port that was adopted receive: until then what arrives does not end Wait,
	// and Recv is not called. The port's user calls it.
	Begin() error
	// Watch adds a descriptor whose readability ends Wait. Closing the descriptor
	// takes it out.
	Watch(fd int) error

	// Sources are the addresses of the transmit sockets; Message.Source is an
	// index into it.
	Sources() []netip.AddrPort
	// GSO reports whether messages may have segments. It turns false for good
	// when the system refuses a send that should have worked.
	GSO() bool
	// ReceiveBudget is half of what the receive socket can hold, in bytes as the
	// kernel counts them (its truesize): about 8.4 KB for a packet of 4 KiB, 832
	// bytes for a small one. What exceeds the buffer is lost without a trace but
	// for Stats.Overflow.
	ReceiveBudget() int
	// Stats copies the counters; the port's user calls it.
	Stats() Stats
}

// A Datagram is what one receive brought: one packet, or with SegmentSize set
// several of that size merged by the kernel (GRO), the last perhaps shorter.
type Datagram struct {
	Data        []byte
	SegmentSize int            // bytes; 0: a single packet
	From        netip.AddrPort // with the endpoint's zone if link-local
	TOS         uint8          // IP type of service or traffic class
	ID          int32          // IPv4 identification of the first packet; -1: not known
}

// CE reports the mark "congestion experienced" (RFC 3168).
func (d *Datagram) CE() bool { return d.TOS&3 == 3 }

// A RecvBatch holds received datagrams and the memory behind them.
type RecvBatch struct {
	Datagrams []Datagram
	sockets   *socketBatch // of a port with sockets
	memory    [][]byte     // of an in-memory port: buffers to give back
}

// A Message is one datagram to send, or with SegmentSize set a run of at most
// MaxSegments of that size, the last perhaps shorter. Its bytes are gathered from
// Pieces, of which there may be 1024.
type Message struct {
	To          netip.AddrPort
	Source      uint8 // which of Sources sends it
	TOS         uint8 // IP type of service or traffic class
	SegmentSize uint16
	Pieces      [][]byte
}

// size is the number of bytes in the message.
func (m *Message) size() int {
	n := 0
	for _, b := range m.Pieces {
		n += len(b)
	}
	return n
}

// valid reports whether the message, of size bytes, is within the bounds of a
// port of an IPv4 or IPv6 address.
func (m *Message) valid(size, sources int, is4 bool) bool {
	to := m.To.Addr()
	if int(m.Source) >= sources || size > MaxBurst || len(m.Pieces) > maxPieces || (to.Is4() || to.Is4In6()) != is4 {
		return false
	}
	return m.SegmentSize == 0 || size <= int(m.SegmentSize)*MaxSegments
}

// maxPieces is UIO_MAXIOV, the most iovecs of one message.
const maxPieces = 1024

// Stats are a port's counters.
type Stats struct {
	ReceiveCalls  uint64
	Datagrams     uint64 // received, before splitting
	Merged        uint64 // of these, several packets in one
	Bytes         uint64 // received
	Overflow      uint64 // datagrams lost because the receive buffer was full
	Truncated     uint64 // received datagrams dropped because they did not fit
	SendCalls     uint64
	Messages      uint64 // taken by the network
	SendLost      uint64 // messages that it did not take, but for those of SendFull
	SendFull      uint64 // messages that it did not take because the send buffer was full
	GSOTurnedOff  uint64
	LastSendError error // why the last message was refused, other than a full buffer
	ReceiveBuffer int   // effective bytes
}

// Config describes the sockets. A zero field takes the default.
type Config struct {
	Shards   int // ports; default 1
	Transmit int // transmit sockets of each port; default 4, limit MaxTransmit

	// ReceiveBuffer is what SO_RCVBUFFORCE, or where that is not allowed
	// SO_RCVBUF, is asked for, in bytes; the kernel doubles it. Default 8 MiB.
	ReceiveBuffer int
	SendBuffer    int // the same for each transmit socket; default 4 MiB

	NoGSO bool // never offer segments
	NoGRO bool // have every packet delivered alone
}

const maxShards = 64

// MaxTransmit is how many transmit sockets a port may have.
const MaxTransmit = 16

func (c *Config) setDefaults() {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Shards, 1)
	set(&c.Transmit, 4)
	set(&c.ReceiveBuffer, 8<<20)
	set(&c.SendBuffer, 4<<20)
}
