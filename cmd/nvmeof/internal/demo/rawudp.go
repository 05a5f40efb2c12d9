package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/rawudp"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/internal/floor"
)

// pairs is how often the fabric is compared with raw UDP. Each time both are measured one right after the other, so
// that other load on the machine affects both.
const pairs = 3

// mostTries is how often a pair is measured if the raw figure was disturbed.
const mostTries = 4

// A comparison holds the cost of UDP alone on this machine, and the ratios of the namespace in memory to it: medians.
type comparison struct {
	trip       floor.RoundTrips
	goodput    float64 // bytes per second
	latency    float64 // of a 4 KiB QD-1 read, in round trips
	throughput float64 // of 128 KiB QD-16 reads, in multiples of goodput
}

// compare measures the pairs, with memory of the controller.
func (d *demo) compare(ctx context.Context, memory []byte) (c comparison, err error) {
	var trips []floor.RoundTrips
	var goodputs, latencies, throughputs []float64
	job := bench.Job{Runtime: max(d.flags.runtime/2, time.Millisecond), Ramp: d.flags.runtime / 10}
	load := func(p bench.Pattern, size, depth, n int) (*bench.Result, error) {
		// Use the same bytes over and over, as many as the raw flow sends. The comparison is about the fabric, not about
		// the speed of memory outside the caches.
		job.Pattern, job.BlockSize, job.Depth, job.Size = p, size, depth, floor.Region
		label := fmt.Sprintf("comparing with raw UDP, %d of %d", n, 2*pairs)
		return bench.Run(ctx, d.exports[0].ns, memory, job, terminal.Line(d.errOut, label))
	}
	for i := range pairs {
		var trip floor.RoundTrips
		var r *bench.Result
		var latency float64
		// A read contains a round trip of UDP. If it was faster than that, something else delayed the trip, and both are
		// measured again.
		for tries := 0; latency < 1 && tries < mostTries; tries++ {
			if trip, err = rawudp.RoundTrip(job.Runtime, rawudp.CommandPacket, rawudp.ResponsePacket); err != nil {
				return c, err
			}
			if r, err = load(bench.RandRead, 4<<10, 1, 2*i+1); err != nil {
				return c, err
			}
			latency = r.Percentile(50).Seconds() / trip.P50.Seconds()
		}
		trips = append(trips, trip)
		latencies = append(latencies, latency)

		goodput, err := rawudp.Goodput(job.Runtime, rawudp.WritePacket)
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
	return comparison{trips[len(trips)/2], rawudp.Median(goodputs), rawudp.Median(latencies), rawudp.Median(throughputs)}, nil
}
