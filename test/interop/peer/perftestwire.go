package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// perftest's handshake over the RDMA CM, as the captures verbs-*.pcap show it:
// all on a connection of its own, each message sent by the client and answered
// by the server with one of the same size.
//
//	version                            16 bytes of text
//	cycle buffer, cache line           4 bytes each, big-endian
//	MTU                                2 bytes of text: its number in the enumeration
//	destination                        56 bytes, not filled yet
//	(the data's connection is made, to the same port)
//	destination                        56 bytes, not filled yet
//	destination                        56 bytes, three times; for SEND once more,
//	                                   when the server's receives are posted
//	(data)
//	destination                        56 bytes: the client is done; not for SEND
//	size, iterations, peak and average
//	bandwidth, message rate            8 bytes each, big-endian, the last three as
//	                                   doubles; not for SEND
//	destination                        56 bytes: good bye
//
// Then each side disconnects both connections.
const (
	textSize        = 16
	numberSize      = 4
	mtuSize         = 2
	destinationSize = 56
	reportSize      = 8

	perftestVersion = "6.24"
	cycleBuffer     = 4096
	cacheLine       = 64
	mtu4096         = "5"
)

// reports is how many numbers the client tells after the data.
const reports = 5

// exchanges is how many destinations are told between the connection for the data
// and the data.
func (op operation) exchanges() int {
	if op == opSend {
		return 5
	}
	return 4
}

// meetings is how many destinations are told in all.
func (op operation) meetings() int {
	n := 1 + op.exchanges() + 1 // before the data's connection; good bye
	if op != opSend {
		n++
	}
	return n
}

// A destination is what one side of perftest tells the other of its data's queue
// pair and memory: numbers big-endian, 32 bits and, for the address, 64 bits
// after a gap of 4 bytes; then the GID, the shared receive queue, the GID's index.
type destination struct {
	reads int // RDMA READs and atomics in flight
	qpn   rdmatransport.QPN
	rkey  rdmatransport.RKey
	vaddr uint64
	addr  netip.Addr
}

func (d destination) encode() []byte {
	b := make([]byte, destinationSize)
	if d.qpn == 0 {
		return b
	}
	binary.BigEndian.PutUint32(b[4:], uint32(d.reads))
	binary.BigEndian.PutUint32(b[8:], uint32(d.qpn))
	binary.BigEndian.PutUint32(b[16:], uint32(d.rkey))
	binary.BigEndian.PutUint64(b[24:], d.vaddr)
	gid := d.addr.As16()
	copy(b[32:], gid[:])
	binary.BigEndian.PutUint32(b[52:], 1)
	return b
}

// decodeDestination ignores the PSN, at 12, which the RDMA CM exchanges too.
func decodeDestination(b []byte) (destination, error) {
	if len(b) != destinationSize {
		return destination{}, fmt.Errorf("destination of %d bytes, want %d", len(b), destinationSize)
	}
	d := destination{
		reads: int(binary.BigEndian.Uint32(b[4:])),
		qpn:   rdmatransport.QPN(binary.BigEndian.Uint32(b[8:])),
		rkey:  rdmatransport.RKey(binary.BigEndian.Uint32(b[16:])),
		vaddr: binary.BigEndian.Uint64(b[24:]),
		addr:  netip.AddrFrom16([16]byte(b[32:48])).Unmap(),
	}
	return d, nil
}

func encodeText(s string, size int) []byte {
	b := make([]byte, size)
	copy(b, s)
	return b
}

func decodeText(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}
