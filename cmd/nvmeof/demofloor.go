package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/bench"
	"github.com/nvmeof-go/nvmeof/test/floor"
)

// The datagrams of a 4 KiB read: the command's capsule (64 bytes) with BTH and
// ICRC one way; RDMA WRITE and response the other (IBTA 9.2, 9.3).
const (
	commandPacket  = 64 + 12 + 4
	shortResponse  = 16 + 12 + 4 + 4
	readOverhead   = 12 + 16 + 4 + shortResponse
	responsePacket = 4096 + readOverhead
	packetOverhead = 12 + 4 // of a long RDMA WRITE
	writePacket    = 4096 + packetOverhead
)

// pairs is how often the fabric is compared with raw UDP. Each time both are
// measured right after one another, so that what else the machine does meanwhile
// weighs on both.
const pairs = 3

// A comparison is what UDP alone costs on this machine, and the namespace in
// memory in terms of that: medians.
type comparison struct {
	trip       floor.RoundTrips
	goodput    float64 // bytes a second
	latency    float64 // of a 4 KiB QD-1 read, in round trips
	throughput float64 // of 128 KiB QD-16 reads, in goodputs
}

// compare measures the pairs, in memory of the controller's.
func (d *demo) compare(ctx context.Context, memory []byte) (c comparison, err error) {
	var trips []floor.RoundTrips
	var goodputs, latencies, throughputs []float64
	job := bench.Job{Runtime: max(d.flags.runtime/2, time.Millisecond), Ramp: d.flags.runtime / 10}
	load := func(p bench.Pattern, size, depth, n int) (*bench.Result, error) {
		// The same bytes over and over, as many as the raw flow sends: what is
		// compared is the fabric, not how fast memory outside the caches is.
		job.Pattern, job.BlockSize, job.Depth, job.Size = p, size, depth, floor.Region
		label := fmt.Sprintf("comparing with raw UDP, %d of %d", n, 2*pairs)
		return bench.Run(ctx, d.exports[0].ns, memory, job, progressLine(d.errOut, label))
	}
	for i := range pairs {
		trip, err := roundTrip(job.Runtime, commandPacket, responsePacket)
		if err != nil {
			return c, err
		}
		r, err := load(bench.RandRead, 4<<10, 1, 2*i+1)
		if err != nil {
			return c, err
		}
		trips = append(trips, trip)
		latencies = append(latencies, r.Percentile(50).Seconds()/trip.P50.Seconds())

		goodput, err := goodput(job.Runtime, writePacket)
		if err != nil {
			return c, err
		}
		if r, err = load(bench.Read, 128<<10, 16, 2*i+2); err != nil {
			return c, err
		}
		goodputs = append(goodputs, goodput)
		throughputs = append(throughputs, r.Throughput()/goodput)
	}
	slices.SortFunc(trips, func(a, b floor.RoundTrips) int { return int(a.P50 - b.P50) })
	return comparison{trips[len(trips)/2], median(goodputs), median(latencies), median(throughputs)}, nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// roundTrip measures for about so long, while this process's own loops sleep.
func roundTrip(runtime time.Duration, request, response int) (floor.RoundTrips, error) {
	const aSecond = 20_000 // round trips, more or less
	t, err := floor.RoundTrip(firstLoopback, firstLoopback.Next(), max(100, int(aSecond*runtime.Seconds())), request, response)
	if err != nil {
		return t, fmt.Errorf("raw UDP round trip: %w", err)
	}
	return t, nil
}

// goodput measures between addresses that are no endpoints.
func goodput(runtime time.Duration, packet int) (float64, error) {
	a := firstLoopback
	for try := 0; ; try++ {
		g, err := floor.Goodput(a, a.Next(), runtime, packet)
		if err == nil {
			return g, nil
		}
		if a = a.Next(); !isTaken(err) || try == loopbackTries {
			return 0, fmt.Errorf("raw UDP goodput: %w", err)
		}
	}
}

var firstLoopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
