// Package udp sends and receives batches of datagrams for one RoCEv2 endpoint: UDP port 4791 of one IP address. Linux
// sockets ([Listen]) and an in-memory network with faults ([Network]) implement the same interface.
//
// # Sockets
//
// Each shard has a [Port]. It consists of a receive socket on 4791 in a reuse-port group, from which a classic BPF
// program selects a socket by the destination queue pair number, and a few transmit sockets with source ports of
// their own from 0xC000 up. All are unconnected, so they get no ICMP errors. They are bound to the exact address and
// never fragment, for which Linux sends IPv4 identification 0, or k in the k-th segment of a GSO send. The ICRC
// covers all of that.
//
// The steering rule is: queue pair 1 belongs to the first port, every other number to port number mod shards. The
// kernel steers a merged datagram as a whole by its first packet, and steers randomly while the group is being
// opened. So a port can receive packets of another port, which its user has to hand over.
//
// An address belongs to one process. The process holds an abstract unix socket named after the address, which exists
// in the network namespace and is closed with the process. A reuse-port group alone would let a second process of the
// same user join it. The socket is handed to the next owner with the others ([Adopt]).
//
// # Blocking and the Go runtime
//
// Recv, Send and Wake never block and keep the runtime's P. A loop that calls nothing else must call
// [runtime.Gosched] now and then (every 64 turns is enough), or it delays garbage collections and timers. Wait
// releases the P. There are no allocations in steady state.
//
// # Limits
//
// Linux only, 4.18 or later; GRO needs 5.0. No IP options, fragments, multicast or broadcast. IPv6 link-local
// addresses are reachable only on the interface of the endpoint's own zone.
package udp

import (
	"net/netip"
	"os"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Limits of one message, that is of one GSO send. Older kernels refuse more segments. A message that is 64 KiB or
// longer with its Ethernet and IPv6 headers is split before it reaches the device, even loopback, so that each packet
// is sent alone.
const (
	MaxSegments = 64
	MaxBurst    = 65473 // bytes
)

// A Group holds the ports of all shards of one address.
type Group interface {
	Addr() netip.Addr
	Ports() []Port
	// MTU returns the size in bytes of the largest IP packet between the address and dst. It is the minimum of the
	// route's MTU, the MTU of the address's own interface, and that of dst's interface if dst is an address of this
	// machine. If dst is invalid, MTU returns the MTU of the address's own interface.
	MTU(dst netip.Addr) (int, error)
	// Node returns the NUMA node of the address's interface, if the system reports it.
	Node() rdmatransport.NUMANode
	// Warnings describes what the system did not grant, and what the administrator can do about it.
	Warnings() []string
	// Prepare obtains the descriptors that Move returns, so that Move cannot fail for lack of them. Close closes them
	// if Move has not returned them.
	Prepare() error
	// Move gives up the group for [Adopt] or [Readopt]. It returns the descriptors, in the order that Moved
	// describes. Ports must not receive or send afterwards. Wait then returns only for Wake and watched descriptors,
	// and Close closes only this group's descriptors.
	Move() (Moved, []*os.File, error)
	// Close closes all ports. No other method may be running, except Wake, which does nothing afterwards.
	Close() error
}

// A Port is one shard's access to the network. It must be used by one goroutine at a time, except Wake.
type Port interface {
	// NewBatch returns buffers for Recv of this port.
	NewBatch() *RecvBatch
	// Recv fills b with datagrams that have arrived and returns their number. It never blocks. The caller may read
	// and change the data until the next Recv with b.
	Recv(b *RecvBatch) (int, error)
	// Send hands messages to the network, in order for each source, and returns how many it accepted. The others are
	// lost, as if in the network. It never blocks, and does not retain the pieces.
	Send(ms []Message) int
	// Wait blocks until a datagram may have arrived, Wake is called, a watched descriptor is readable, or d has
	// passed (negative: no limit). It may return early.
	Wait(d time.Duration)
	// Wake ends the current or else the next Wait. If there is no current Wait, it costs one atomic store.
	Wake()
	// Begin lets an adopted port receive. Before that, arriving datagrams do not end Wait, and Recv must not be
	// called. It is called by the port's user.
	Begin() error
	// Watch adds a descriptor that ends Wait when it is readable. Closing the descriptor removes it.
	Watch(fd int) error

	// Sources returns the addresses of the transmit sockets. Message.Source is an index into it.
	Sources() []netip.AddrPort
	// GSO reports whether messages may have segments. It becomes false permanently when the system refuses a send
	// that should have worked.
	GSO() bool
	// ReceiveBudget returns half of the capacity of the receive socket, in bytes as the kernel counts them
	// (truesize): about 8.4 KB for a packet of 4 KiB, 832 bytes for a small one. Datagrams beyond the capacity are
	// lost and only counted in Stats.Overflow.
	ReceiveBudget() int
	// Stats returns the counters. It is called by the port's user.
	Stats() Stats
}

// A Datagram is one received datagram: a single packet or, with SegmentSize set, several packets of that size merged
// by the kernel (GRO), of which the last may be shorter.
type Datagram struct {
	Data        []byte
	SegmentSize int            // bytes; 0: a single packet
	From        netip.AddrPort // with the endpoint's zone if link-local
	TOS         uint8          // IP type of service or traffic class
	ID          int32          // IPv4 identification of the first packet; -1: unknown
}

// CE reports whether the datagram is marked "congestion experienced" (RFC 3168).
func (d *Datagram) CE() bool { return d.TOS&3 == 3 }

// A RecvBatch holds received datagrams and their memory.
type RecvBatch struct {
	Datagrams []Datagram
	sockets   *socketBatch // of a port with sockets
	memory    [][]byte     // of an in-memory port: buffers to return
}

// A Message is one datagram to send or, with SegmentSize set, at most MaxSegments segments of that size, of which the
// last may be shorter. Its bytes are gathered from at most 1024 Pieces.
type Message struct {
	To          netip.AddrPort
	Source      uint8 // index into Sources
	TOS         uint8 // IP type of service or traffic class
	SegmentSize uint16
	Pieces      [][]byte
}

// size returns the number of bytes in the message.
func (m *Message) size() int {
	n := 0
	for _, b := range m.Pieces {
		n += len(b)
	}
	return n
}

// valid reports whether the message, of size bytes, is within the limits of a port with an IPv4 or IPv6 address.
func (m *Message) valid(size, sources int, is4 bool) bool {
	to := m.To.Addr()
	if int(m.Source) >= sources || size > MaxBurst || len(m.Pieces) > maxPieces || (to.Is4() || to.Is4In6()) != is4 {
		return false
	}
	return m.SegmentSize == 0 || size <= int(m.SegmentSize)*MaxSegments
}

// maxPieces is UIO_MAXIOV, the maximum number of iovecs per message.
const maxPieces = 1024

// Stats holds a port's counters.
type Stats struct {
	ReceiveCalls  uint64
	Datagrams     uint64 // received, before splitting
	Merged        uint64 // datagrams of several merged packets
	Bytes         uint64 // received
	Overflow      uint64 // datagrams lost because the receive buffer was full
	Truncated     uint64 // received datagrams dropped because they did not fit
	SendCalls     uint64
	Messages      uint64 // accepted by the network
	SendLost      uint64 // messages not accepted, except those in SendFull
	SendFull      uint64 // messages not accepted because the send buffer was full
	GSOTurnedOff  uint64
	LastSendError error // reason why the last message was refused, other than a full buffer
	ReceiveBuffer int   // effective bytes
}

// Config describes the sockets. A zero field takes the default.
type Config struct {
	Shards   int // ports; default 1
	Transmit int // transmit sockets of each port; default 4, limit MaxTransmit

	// ReceiveBuffer is the size in bytes requested with SO_RCVBUFFORCE or, if that is not permitted, with SO_RCVBUF;
	// the kernel doubles it. Default 8 MiB.
	ReceiveBuffer int
	SendBuffer    int // the same for each transmit socket; default 4 MiB

	NoGSO bool // do not use GSO
	NoGRO bool // do not use GRO
}

const maxShards = 64

// MaxTransmit is the maximum number of transmit sockets of a port.
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
