package rawudp

import (
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/loopback"
	"github.com/nvmeof-go/nvmeof/internal/floor"
)

// The datagrams of a 4 KiB read: in one direction the command's capsule (64 bytes) with BTH and ICRC; in the other
// RDMA WRITE and response (IBTA 9.2, 9.3).
const (
	CommandPacket  = 64 + 12 + 4
	ShortResponse  = 16 + 12 + 4 + 4
	ReadOverhead   = 12 + 16 + 4 + ShortResponse
	ResponsePacket = 4096 + ReadOverhead
	PacketOverhead = 12 + 4 // of a long RDMA WRITE
	WritePacket    = 4096 + PacketOverhead
)

// Median returns the median of several rounds. It sorts them.
func Median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// RoundTrip measures round trips of datagrams with the given sizes in bytes for about the given time, while this
// process's own loops sleep.
func RoundTrip(runtime time.Duration, request, response int) (floor.RoundTrips, error) {
	const aSecond = 20_000 // round trips, approximately
	t, err := floor.RoundTrip(loopback.First(), loopback.First().Next(), max(100, int(aSecond*runtime.Seconds())), request, response)
	if err != nil {
		return t, fmt.Errorf("raw UDP round trip: %w", err)
	}
	return t, nil
}

// Goodput measures the throughput of one flow in bytes per second.
func Goodput(runtime time.Duration, packet int) (float64, error) {
	g, err := floor.Goodput(loopback.First(), loopback.First().Next(), runtime, packet)
	if err != nil {
		return 0, fmt.Errorf("raw UDP goodput: %w", err)
	}
	return g, nil
}
