package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/bench"
	"github.com/nvmeof-go/nvmeof/test/floor"
)

// floors are what UDP alone costs on this machine: the best of what was measured
// at several times, since others may use the machine too.
type floors struct {
	trip    floor.RoundTrips
	goodput float64 // bytes a second
}

// The datagrams of a 4 KiB read: the command's capsule (64 bytes) with BTH and
// ICRC one way; RDMA WRITE and response the other (IBTA 9.2, 9.3).
const (
	commandPacket  = 64 + 12 + 4
	responsePacket = 4096 + 12 + 16 + 4 + 16 + 12 + 4 + 4
	writePacket    = 4096 + 12 + 4 // of a long RDMA WRITE
)

// measure measures once more, while the demo's own loops sleep.
func (f *floors) measure(runtime time.Duration) error {
	trips := max(100, int(tripsPerSecond*runtime.Seconds()))
	trip, err := floor.RoundTrip(firstLoopback, firstLoopback.Next(), trips, commandPacket, responsePacket)
	if err != nil {
		return fmt.Errorf("raw UDP round trip: %w", err)
	}
	if f.trip.Count == 0 || trip.P50 < f.trip.P50 {
		f.trip = trip
	}
	a := firstLoopback
	for try := 0; ; try++ {
		goodput, err := floor.Goodput(a, a.Next(), runtime, writePacket)
		if err == nil {
			f.goodput = max(f.goodput, goodput)
			return nil
		}
		if a = a.Next(); !isTaken(err) || try == loopbackTries { // somebody has one of the addresses
			return fmt.Errorf("raw UDP goodput: %w", err)
		}
	}
}

// tripsPerSecond makes measuring round trips about as long as another measurement.
const tripsPerSecond = 10000

var firstLoopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// A loadKind is one of the loads that each namespace gets.
type loadKind struct {
	blockSize, depth int
	read, write      bench.Pattern
}

var loadKinds = []loadKind{
	{4 << 10, 1, bench.RandRead, bench.RandWrite},
	{4 << 10, 32, bench.RandRead, bench.RandWrite},
	{128 << 10, 16, bench.Read, bench.Write},
}

const maxLoad = 128 << 10 * 16 // bytes that the largest of them has in flight

// A demoRow is one load of one namespace, through the fabric and without it.
type demoRow struct {
	name          string
	remote, local *bench.Result
}

// demoResults are all, and how busy others kept the machine meanwhile.
type demoResults struct {
	rows   []demoRow
	floors floors
	others float64 // processors used by other processes
}

// measure runs all loads.
func (d *demo) measure(ctx context.Context) (r demoResults, err error) {
	remote, err := d.controller.NewBuffers(maxLoad)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, remote.Close()) }()
	local, err := unix.Mmap(-1, 0, maxLoad, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return r, fmt.Errorf("map %d bytes: %w", maxLoad, err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(local)) }()
	busy := startUsage()
	if err := r.floors.measure(d.flags.runtime); err != nil {
		return r, err
	}
	for _, e := range d.exports {
		for _, j := range d.jobs() {
			row := demoRow{name: e.name}
			if row.remote, err = d.one(ctx, e.ns, remote.Bytes(), j, 2*len(r.rows)+1, e.name); err != nil {
				return r, err
			}
			if row.local, err = d.one(ctx, e.store, local, j, 2*len(r.rows)+2, e.name+" without the fabric"); err != nil {
				return r, err
			}
			r.rows = append(r.rows, row)
		}
		if err := r.floors.measure(d.flags.runtime); err != nil {
			return r, err
		}
	}
	r.others = busy.others()
	return r, nil
}

// jobs are the loads that each namespace gets.
func (d *demo) jobs() (jobs []bench.Job) {
	for _, k := range loadKinds {
		for _, p := range []bench.Pattern{k.read, k.write} {
			jobs = append(jobs, bench.Job{Pattern: p, BlockSize: k.blockSize, Depth: k.depth, Runtime: d.flags.runtime, Ramp: d.flags.runtime / 4})
		}
	}
	return jobs
}

// one runs load number n of total.
func (d *demo) one(ctx context.Context, s backend.Store, memory []byte, j bench.Job, n int, what string) (*bench.Result, error) {
	total := 2 * len(d.exports) * 2 * len(loadKinds)
	label := fmt.Sprintf("measuring %d of %d: %s, %v of %s, %d in flight", n, total, what, j.Pattern, bench.Bytes(j.BlockSize), j.Depth)
	r, err := bench.Run(ctx, s, memory, j, progressLine(d.errOut, label))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return r, nil
}

func (r *demoResults) print(w io.Writer) {
	f := &r.floors
	columns := fmt.Sprintf("%9s %7s %9s %9s %9s", "IOPS", "GB/s", "p50", "p99", "p99.9")
	fmt.Fprintf(w, "%-32s %-48s   %s\n", "", "through the fabric", "the same store without it")
	fmt.Fprintf(w, "%-32s%s   %s\n", "", columns, columns)
	for _, row := range r.rows {
		j := row.remote.Job
		what := fmt.Sprintf("%s %s of %s, QD %d", row.name, j.Pattern, bench.Bytes(j.BlockSize), j.Depth)
		fmt.Fprintf(w, "%-32s%s   %s\n", what, cells(row.remote), cells(row.local))
	}
	fmt.Fprintf(w, "%-32s%s\n", fmt.Sprintf("raw UDP, %d B there, %d B back", commandPacket, responsePacket),
		fmt.Sprintf("%9.0f %7s %9s %9s %9s", 1/f.trip.P50.Seconds(), "", bench.Latency(f.trip.P50), bench.Latency(f.trip.P99), bench.Latency(f.trip.P999)))
	fmt.Fprintf(w, "%-32s%9s %7.3f\n", "raw UDP, one flow with GSO", "", f.goodput/1e9)
	fmt.Fprintln(w)
	r.printRatios(w)
}

func cells(r *bench.Result) string {
	return fmt.Sprintf("%9.0f %7.3f %9s %9s %9s", r.IOPS(), r.Throughput()/1e9,
		bench.Latency(r.Percentile(50)), bench.Latency(r.Percentile(99)), bench.Latency(r.Percentile(99.9)))
}

// find is the result of a load of the memory namespace.
func (r *demoResults) find(p bench.Pattern, depth int) *bench.Result {
	for _, row := range r.rows {
		if j := row.remote.Job; row.name == "memory" && j.Pattern == p && j.Depth == depth {
			return row.remote
		}
	}
	return nil
}

// printRatios says whether the two promises about speed hold.
func (r *demoResults) printRatios(w io.Writer) {
	latency := r.find(bench.RandRead, 1).Percentile(50).Seconds() / r.floors.trip.P50.Seconds()
	throughput := r.find(bench.Read, 16).Throughput() / r.floors.goodput
	verdict := map[bool]string{true: "holds", false: "does not hold"}
	fmt.Fprintf(w, "4 KiB QD-1 read of memory, in raw UDP round trips:  %5.2f  (at most 2.5: %s)\n", latency, verdict[latency <= 2.5])
	fmt.Fprintf(w, "128 KiB QD-16 read of memory, in raw UDP goodput:   %5.2f  (at least 0.6: %s)\n", throughput, verdict[throughput >= 0.6])
	if r.others > 0.1 {
		fmt.Fprintf(w, "Other processes used %.1f processors meanwhile: on an idle machine the figures differ.\n", r.others)
	}
}
