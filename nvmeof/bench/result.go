package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Result is what a job measured.
type Result struct {
	Job
	Ops      uint64
	Elapsed  time.Duration
	Latency  *hdrhistogram.Histogram // nanoseconds
	Verified uint64                  // blocks read back and found right
}

// IOPS is requests a second.
func (r *Result) IOPS() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Ops) / r.Elapsed.Seconds()
}

// Throughput is bytes a second.
func (r *Result) Throughput() float64 { return r.IOPS() * float64(r.BlockSize) }

// Percentile is the time within which p percent of the requests were done.
func (r *Result) Percentile(p float64) time.Duration {
	return time.Duration(r.Latency.ValueAtQuantile(p))
}

const (
	headerRow = "%-10s %8s %6s %12s %9s %10s %10s %10s\n"
	resultRow = "%-10s %8s %6d %12.0f %9.3f %10s %10s %10s\n"
)

// Table prints the result for people.
func (r *Result) Table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, headerRow, "pattern", "size", "depth", "IOPS", "GB/s", "p50", "p99", "p99.9")
	fmt.Fprintf(&b, resultRow, r.Pattern, Bytes(r.BlockSize), r.Depth, r.IOPS(), r.Throughput()/1e9,
		Latency(r.Percentile(50)), Latency(r.Percentile(99)), Latency(r.Percentile(99.9)))
	if r.Verify {
		fmt.Fprintf(&b, "read back and compared: %d blocks of %s\n", r.Verified, Bytes(r.BlockSize))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Bytes is a size in binary units where they fit: 4 KiB.
func Bytes(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// Latency is a duration in a unit that leaves three digits or more.
func Latency(d time.Duration) string {
	switch {
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%.1f us", float64(d)/1e3)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.0f us", float64(d)/1e3)
	}
	return fmt.Sprintf("%.1f ms", float64(d)/1e6)
}

// The document that fio prints with --output-format=json, as far as it applies.
type (
	fioOutput struct {
		Version string   `json:"fio version"`
		Jobs    []fioJob `json:"jobs"`
	}
	fioJob struct {
		Name    string            `json:"jobname"`
		Error   int               `json:"error"`
		Options map[string]string `json:"job options"`
		Read    fioSide           `json:"read"`
		Write   fioSide           `json:"write"`
	}
	fioSide struct {
		Bytes    uint64     `json:"io_bytes"`
		BWBytes  uint64     `json:"bw_bytes"`
		BW       uint64     `json:"bw"` // KiB/s
		IOPS     float64    `json:"iops"`
		Runtime  int64      `json:"runtime"` // ms
		Total    uint64     `json:"total_ios"`
		Complete fioLatency `json:"clat_ns"`
	}
	fioLatency struct {
		Min        int64            `json:"min"`
		Max        int64            `json:"max"`
		Mean       float64          `json:"mean"`
		Stddev     float64          `json:"stddev"`
		N          uint64           `json:"N"`
		Percentile map[string]int64 `json:"percentile,omitempty"`
	}
)

var fioPercentiles = []float64{1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99}

// JSON prints the result in the shape of fio's JSON, for what reads that.
func (r *Result) JSON(w io.Writer, name, version string) error {
	side := fioSide{
		Bytes: r.Ops * uint64(r.BlockSize), BWBytes: uint64(r.Throughput()), BW: uint64(r.Throughput()) >> 10,
		IOPS: r.IOPS(), Runtime: r.Elapsed.Milliseconds(), Total: r.Ops,
		Complete: fioLatency{
			Min: r.Latency.Min(), Max: r.Latency.Max(), Mean: r.Latency.Mean(), Stddev: r.Latency.StdDev(), N: r.Ops,
			Percentile: map[string]int64{},
		},
	}
	for _, p := range fioPercentiles {
		side.Complete.Percentile[fmt.Sprintf("%f", p)] = r.Latency.ValueAtQuantile(p)
	}
	job := fioJob{Name: name, Options: map[string]string{
		"rw": r.Pattern.String(), "bs": fmt.Sprint(r.BlockSize), "iodepth": fmt.Sprint(r.Depth), "runtime": r.Runtime.String(),
	}}
	if r.Pattern.Writes() {
		job.Write = side
	} else {
		job.Read = side
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(fioOutput{version, []fioJob{job}})
}
