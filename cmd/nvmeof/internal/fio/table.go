package fio

import (
	"fmt"
	"io"
	"strings"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// Table prints a line for each job: the pattern, the results, and percentiles of the total latency.
func (o *Output) Table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %8s %6s %12s %9s %10s %10s %10s\n", "pattern", "size", "depth", "IOPS", "GB/s", "p50", "p99", "p99.9")
	for i := range o.Groups {
		for k := range o.Groups[i].Jobs {
			r := o.Groups[i].Jobs[k].Result
			all := r.Latencies()
			fmt.Fprintf(&b, "%-10s %8s %6d %12.0f %9.3f %10s %10s %10s\n", r.Pattern, r.SizeText(), r.Depth, r.IOPS(), r.Throughput()/1e9,
				bench.Latency(all.Percentile(50)), bench.Latency(all.Percentile(99)), bench.Latency(all.Percentile(99.9)))
			if r.Verify {
				fmt.Fprintf(&b, "read back and compared: %d blocks of %s\n", r.Verified, bench.Bytes(r.VerifyBlock()))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
