package demo

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/backend"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/processors"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/rawudp"
	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/terminal"
	"github.com/nvmeof-go/nvmeof/internal/bench"
)

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

const maxLoad = 128 << 10 * 16 // maximum number of bytes that a load has in flight

// A demoRow is the result of one load on one namespace, through the fabric and without it.
type demoRow struct {
	name          string
	remote, local *bench.Result
}

// demoResults holds all results, and how busy other processes kept the machine meanwhile.
type demoResults struct {
	rows   []demoRow
	floors comparison
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
	busy := processors.StartUsage()
	if r.floors, err = d.compare(ctx, remote.Bytes()); err != nil {
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
	}
	r.others = busy.Others()
	return r, nil
}

// jobs returns the loads that each namespace gets.
func (d *demo) jobs() (jobs []bench.Job) {
	for _, k := range loadKinds {
		for _, p := range []bench.Pattern{k.read, k.write} {
			jobs = append(jobs, bench.Job{Pattern: p, BlockSize: k.blockSize, Depth: k.depth, Runtime: d.flags.runtime, Ramp: d.flags.runtime / 4})
		}
	}
	return jobs
}

// one runs load number n.
func (d *demo) one(ctx context.Context, s backend.Store, memory []byte, j bench.Job, n int, what string) (*bench.Result, error) {
	total := 2 * len(d.exports) * 2 * len(loadKinds)
	label := fmt.Sprintf("measuring %d of %d: %s, %v of %s, %d in flight", n, total, what, j.Pattern, bench.Bytes(j.BlockSize), j.Depth)
	r, err := bench.Run(ctx, s, memory, j, terminal.Line(d.errOut, label))
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
	fmt.Fprintf(w, "%-32s%s\n", fmt.Sprintf("raw UDP, %d B there, %d B back", rawudp.CommandPacket, rawudp.ResponsePacket),
		fmt.Sprintf("%9.0f %7s %9s %9s %9s", 1/f.trip.P50.Seconds(), "", bench.Latency(f.trip.P50), bench.Latency(f.trip.P99), bench.Latency(f.trip.P999)))
	fmt.Fprintf(w, "%-32s%9s %7.3f\n", "raw UDP, one flow with GSO", "", f.goodput/1e9)
	fmt.Fprintln(w)
	r.printRatios(w)
}

func cells(r *bench.Result) string {
	return fmt.Sprintf("%9.0f %7.3f %9s %9s %9s", r.IOPS(), r.Throughput()/1e9,
		bench.Latency(r.Percentile(50)), bench.Latency(r.Percentile(99)), bench.Latency(r.Percentile(99.9)))
}

// latencyVerdict judges the latency of a read in round trips of UDP, of which it contains one.
func latencyVerdict(trips float64) string {
	switch {
	case trips < 1:
		return "unknown: other load disturbed the measurement of raw UDP, also when it was repeated"
	case trips <= 2.5:
		return "holds"
	}
	return "does not hold"
}

// printRatios prints whether the two performance goals are met.
func (r *demoResults) printRatios(w io.Writer) {
	f := &r.floors
	verdict := map[bool]string{true: "holds", false: "does not hold"}
	fmt.Fprintf(w, "4 KiB QD-1 read of memory, in raw UDP round trips:  %5.2f  (at most 2.5: %s)\n", f.latency, latencyVerdict(f.latency))
	fmt.Fprintf(w, "128 KiB QD-16 read of memory, in raw UDP goodput:   %5.2f  (at least 0.6: %s)\n", f.throughput, verdict[f.throughput >= 0.6])
	fmt.Fprintf(w, "(medians of %d pairs, each measured one right after the other)\n", pairs)
	if r.others > 0.1 {
		fmt.Fprintf(w, "Other processes used %.1f processors meanwhile: on an idle machine the figures differ.\n", r.others)
	}
}
