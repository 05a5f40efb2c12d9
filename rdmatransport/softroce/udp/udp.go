// Package udp carries batches of datagrams for one RoCEv2 endpoint: UDP port
// 4791 of one IP address. Behind one interface stand Linux sockets ([Listen])
// and an in-memory network with faults ([Network]).
//
// # Sockets
//
// Each shard has a [Port]: a receive socket on 4791 in a reuse-port group, whose
// members a classic BPF program picks by the destination queue pair number in
// the datagram, and a few transmit sockets with source ports of their own. All
// are unconnected, bound to the exact address (the ICRC covers both) and never
// fragment, for which Linux sends IPv4 identification 0, or k in the k-th segment
// of a GSO send: the ICRC covers that too.
//
// # Limits
//
// Linux only. IP options, fragments and link-local zones are not supported.
package udp

import (
	"net/netip"
	"time"
)

// A Group is the ports of all shards of one address.
type Group interface {
	Addr() netip.Addr
	Ports() []Port
	// MTU is the largest IP packet, in bytes, that travels to dst, or with an
	// invalid dst the device's own.
	MTU(dst netip.Addr) (int, error)
	Close() error
}

// A Port is one shard's view of the network. One goroutine at a time uses it;
// Wake alone is for others.
type Port interface {
	// NewBatch returns buffers for Recv.
	NewBatch() *RecvBatch
	// Recv fills b with datagrams that have arrived and returns how many. It
	// never blocks. The data stays as it is until the next Recv with b.
	Recv(b *RecvBatch) (int, error)
	// Send hands messages to the network, in order for each source, and returns
	// how many it took: the rest is lost. It never blocks, and is done with the
	// pieces when it returns.
	Send(ms []Message) int
	// Wait blocks until a datagram may have arrived, Wake was called, a watched
	// descriptor is readable, or d has passed (negative: no limit).
	Wait(d time.Duration)
	Wake()
	// Watch adds a descriptor whose readability ends Wait.
	Watch(fd int) error

	// Sources are the addresses of the transmit sockets; Message.Source is an
	// index into it.
	Sources() []netip.AddrPort
	// GSO reports whether messages may have segments. It can turn false.
	GSO() bool
	// ReceiveBudget is half of what the receive socket can hold, in bytes as the
	// kernel counts them (its truesize).
	ReceiveBudget() int
	Stats() Stats
}

// A Datagram is what one receive brought: one packet, or with SegmentSize set
// several of that size merged by the kernel (GRO), the last perhaps shorter.
type Datagram struct {
	Data        []byte
	SegmentSize int
	From        netip.AddrPort
	TOS         uint8 // IP type of service or traffic class
	ID          int32 // IPv4 identification of the first packet; -1: not known
}

// CE reports the mark "congestion experienced" (RFC 3168).
func (d *Datagram) CE() bool { return d.TOS&3 == 3 }

// A RecvBatch holds received datagrams and the memory behind them.
type RecvBatch struct {
	Datagrams []Datagram
	sockets   *socketBatch
}

// A Message is one datagram to send, or with SegmentSize set a run of them of
// that size, the last perhaps shorter. Its bytes are gathered from Pieces.
type Message struct {
	To          netip.AddrPort
	Source      uint8
	TOS         uint8
	SegmentSize uint16
	Pieces      [][]byte
}

// Stats are a port's counters.
type Stats struct {
	ReceiveCalls  uint64
	Datagrams     uint64 // received, before splitting
	Overflow      uint64 // datagrams lost because the receive buffer was full
	SendCalls     uint64
	Messages      uint64
	SendLost      uint64 // messages that the socket did not take
	GSOTurnedOff  uint64
	Truncated     uint64 // received datagrams that did not fit
	ReceiveBuffer int    // effective bytes
}

// Config describes the sockets. A zero field takes the default.
type Config struct {
	Shards        int // default 1
	Transmit      int // transmit sockets a shard; default 4
	ReceiveBuffer int // bytes of SO_RCVBUF; default 8 MiB
	SendBuffer    int // bytes of SO_SNDBUF; default 4 MiB
	NoGSO         bool
	NoGRO         bool
}

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
