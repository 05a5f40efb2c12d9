package perftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strconv"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// The exchange uses a connection of its own. The client sends the following messages, and the server answers each with
// one of the same size:
//
//	version                            16 bytes of text
//	cycle buffer, cache line           4 bytes each, big-endian
//	MTU                                2 bytes of text: its number in the enumeration ibv_mtu
//	destination                        56 bytes, not filled in yet
//	(the connection for the data is made, to the same port)
//	destination                        56 bytes, not filled in yet
//	destination                        56 bytes; including the one before, [Test.AfterConnecting]
//	                                   times
//	(data)
//	destination                        56 bytes: the client is done; if [Test.Reported]
//	size, iterations, peak and average
//	bandwidth, message rate            8 bytes each, big-endian, the last three as
//	                                   doubles; if [Test.Reported]
//	destination                        56 bytes: end of the test; if [Test.GoodBye]
//
// Then each side disconnects both connections.
const (
	// MaxMessage is the size of the longest message.
	MaxMessage = destinationSize

	versionSize     = 16
	destinationSize = 56

	// ours is the version announced to the other side; the exchange is that of this version.
	ours = "6.24"
	// oldest is the oldest version that perftest itself supports. tooNew is the first version with changed messages.
	oldest, tooNew = 5.70, 6.28
)

// Properties that each side announces. If the values differ, both sides use the larger one.
const (
	CycleBuffer = 4096 // bytes that small messages cycle through: usually a page
	CacheLine   = 64   // bytes from one small message to the next
)

// VersionMessage returns the first message.
func VersionMessage() []byte {
	b := make([]byte, versionSize)
	copy(b, ours)
	return b
}

// CheckVersion returns an error unless the other side's version uses these messages.
func CheckVersion(message []byte) error {
	text, _, _ := bytes.Cut(message, []byte{0})
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || len(text) > 8 {
		return fmt.Errorf("the other end sent no version of perftest, but %q", text)
	}
	if !(v >= oldest && v < tooNew) { // also true for NaN
		return fmt.Errorf("the other end is perftest %s: only versions from %.2f to before %.2f are understood", text, oldest, tooNew)
	}
	return nil
}

// Number returns a message of 4 bytes.
func Number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// ParseNumber parses one.
func ParseNumber(message []byte) uint32 { return binary.BigEndian.Uint32(message) }

// MTUMessage announces the maximum of 4096. The smaller value of both sides only applies if the programs themselves
// make the connection; the RDMA CM negotiates the MTU by itself.
func MTUMessage() []byte { return []byte{'5', 0} }

// A Destination describes the queue pair and the memory of one side. The zero Destination is one that is not filled in
// yet.
type Destination struct {
	Reads int // RDMA READs and atomics in flight
	QPN   rdmatransport.QPN
	RKey  rdmatransport.RKey
	VAddr uint64
	Addr  netip.Addr
}

// Encode returns the message: numbers are big-endian and 32 bits long, except the 64-bit address, which follows a gap
// of 4 bytes; then follow the GID, the shared receive queue and the index of the GID.
func (d Destination) Encode() []byte {
	b := make([]byte, destinationSize)
	if d.QPN == 0 {
		return b
	}
	binary.BigEndian.PutUint32(b[4:], uint32(d.Reads))
	binary.BigEndian.PutUint32(b[8:], uint32(d.QPN))
	binary.BigEndian.PutUint32(b[16:], uint32(d.RKey))
	binary.BigEndian.PutUint64(b[24:], d.VAddr)
	gid := d.Addr.As16()
	copy(b[32:], gid[:])
	binary.BigEndian.PutUint32(b[52:], 1)
	return b
}

// ParseDestination parses the message. It ignores the PSN at offset 12, which the RDMA CM exchanges too.
func ParseDestination(b []byte) (Destination, error) {
	if len(b) != destinationSize {
		return Destination{}, fmt.Errorf("destination of %d bytes, want %d", len(b), destinationSize)
	}
	return Destination{
		Reads: int(binary.BigEndian.Uint32(b[4:])),
		QPN:   rdmatransport.QPN(binary.BigEndian.Uint32(b[8:])),
		RKey:  rdmatransport.RKey(binary.BigEndian.Uint32(b[16:])),
		VAddr: binary.BigEndian.Uint64(b[24:]),
		Addr:  netip.AddrFrom16([16]byte(b[32:48])).Unmap(),
	}, nil
}

// Messages returns the messages in which the client reports a bandwidth to the server.
func (b Bandwidth) Messages() (all [][]byte) {
	for _, v := range []uint64{uint64(b.Size), uint64(b.Iterations),
		math.Float64bits(b.Peak), math.Float64bits(b.Average), math.Float64bits(b.Rate)} {
		all = append(all, binary.BigEndian.AppendUint64(nil, v))
	}
	return all
}

// ReportSize is the size of each message of [Bandwidth.Messages].
const ReportSize = 8

// ParseBandwidth parses the messages of [Bandwidth.Messages]. Values that no measurement can have are an error.
func ParseBandwidth(messages [][]byte) (Bandwidth, error) {
	at := func(i int) uint64 { return binary.BigEndian.Uint64(messages[i]) }
	for i := range 2 {
		if at(i) > math.MaxInt32 {
			return Bandwidth{}, fmt.Errorf("the other end reports an impossible bandwidth: %d messages of %d bytes", at(1), at(0))
		}
	}
	b := Bandwidth{
		Size: int(at(0)), Iterations: int(at(1)),
		Peak: math.Float64frombits(at(2)), Average: math.Float64frombits(at(3)), Rate: math.Float64frombits(at(4)),
	}
	for _, v := range []float64{b.Peak, b.Average, b.Rate} {
		if !(v >= 0 && v <= math.MaxFloat64) { // also true for NaN
			return Bandwidth{}, fmt.Errorf("the other end reports an impossible bandwidth: %v", v)
		}
	}
	return b, nil
}
