package fio

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// format is the version of fio whose format is printed.
const format = "fio-3.33"

// JSON prints like fio with --output-format=json, or with json+ if plus is set.
func (o *Output) JSON(w io.Writer, plus bool) error {
	doc := fields{
		{"fio version", format + " (format; measured by " + o.Program + ")"},
		{"timestamp", o.Ended.Unix()},
		{"timestamp_ms", o.Ended.UnixMilli()},
		{"time", o.Ended.Format(time.ANSIC)},
		{"global options", options(o.Global)},
	}
	jobs := []fields{}
	for i := range o.Groups {
		for k := range o.Groups[i].Jobs {
			jobs = append(jobs, o.Groups[i].job(i, k, detail{&o.Percentiles, plus}))
		}
	}
	doc = append(doc, field{"jobs", jobs})
	if o.Extra != nil {
		doc = append(doc, field{"nvmeof", o.Extra})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// A detail selects how much of distributions is printed.
type detail struct {
	*Percentiles
	plus bool // json+: also the bins
}

func (g *Group) job(id, k int, how detail) fields {
	j := &g.Jobs[k]
	r := j.Result
	u := &r.Usage
	windows := r.Windows(window)
	fs := fields{
		{"jobname", j.Name}, {"groupid", id}, {"error", 0}, {"eta", 0},
		{"elapsed", int64(r.Elapsed/time.Second) + 1},
		{"job options", options(append([]Option{{"name", j.Name}}, j.Options...))},
	}
	for d := range bench.Direction(bench.Directions) {
		fs = append(fs, field{d.String(), g.side(r, d, windows, how)})
	}
	flushes := fields{{"total_ios", count(r.Flushes)}, {"lat_ns", how.latency(r.Flushes, !how.NoCompletion || how.Whole)}}
	fs = append(fs, fields{
		{"sync", flushes},
		{"job_runtime", r.Elapsed.Milliseconds()},
		{"usr_cpu", share(u.User, r.Elapsed)}, {"sys_cpu", share(u.System, r.Elapsed)},
		{"ctx", u.Switches}, {"majf", u.Major}, {"minf", u.Minor},
		{"iodepth_level", counted(depthNames, r.Depths[:])},
		{"iodepth_submit", counted(batchNames, r.Submitted[:])},
		{"iodepth_complete", counted(batchNames, r.Completed[:])},
	}...)
	for i, s := range spreads(r.Latencies()) {
		fs = append(fs, field{spreadKeys[i], numbers(s.names(), s.shares)})
	}
	return append(fs, fields{
		{"latency_depth", r.Depth}, {"latency_target", 0}, {"latency_percentile", number(100)}, {"latency_window", 0},
	}...)
}

var (
	spreadKeys = [3]string{"latency_ns", "latency_us", "latency_ms"}
	depthNames = []string{"1", "2", "4", "8", "16", "32", ">=64"}
	batchNames = []string{"0", "4", "8", "16", "32", "64", ">=64"}
)

func (s *spread) names() (names []string) {
	for _, b := range s.bounds {
		names = append(names, decimal(b))
	}
	if len(s.shares) > len(s.bounds) {
		names = append(names, ">="+names[len(names)-1])
	}
	return names
}

// side returns the results of one direction.
func (g *Group) side(r *bench.Result, d bench.Direction, windows []bench.Window, how detail) fields {
	s := &r.Sides[d]
	n, seconds, runtime := s.Ops(), r.Elapsed.Seconds(), r.Elapsed.Milliseconds()
	rate, iops := 0.0, 0.0
	if seconds > 0 {
		rate, iops = float64(s.Bytes)/seconds, float64(n)/seconds
	}
	if n == 0 {
		windows, runtime = nil, 0
	}
	bw := series(windows, func(w *bench.Window) float64 { return w.Rate(d) / 1024 })
	io := series(windows, func(w *bench.Window) float64 { return w.IOPS(d) })
	return fields{
		{"io_bytes", s.Bytes}, {"io_kbytes", s.Bytes >> 10}, {"bw_bytes", int64(rate)}, {"bw", int64(rate) >> 10},
		{"iops", number(iops)}, {"runtime", runtime}, {"total_ios", n}, {"short_ios", 0}, {"drop_ios", 0},
		{"slat_ns", how.latency(s.Slat, how.Submission)}, {"clat_ns", how.latency(s.Clat, !how.NoCompletion)}, {"lat_ns", how.latency(s.Lat, how.Whole)},
		{"bw_min", int64(bw.min)}, {"bw_max", int64(bw.max)}, {"bw_agg", number(bw.of(g.rate(d) / 1024))},
		{"bw_mean", number(bw.mean)}, {"bw_dev", number(bw.dev)}, {"bw_samples", bw.n},
		{"iops_min", int64(io.min)}, {"iops_max", int64(io.max)},
		{"iops_mean", number(io.mean)}, {"iops_stddev", number(io.dev)}, {"iops_samples", io.n},
	}
}

// latency returns a distribution. fio includes percentiles only for some.
func (how *detail) latency(h *bench.Histogram, withPercentiles bool) fields {
	if h == nil {
		h = new(bench.Histogram)
	}
	fs := fields{{"min", h.Min}, {"max", h.Max}, {"mean", number(h.Mean())}, {"stddev", number(h.StdDev())}, {"N", h.Count}}
	if !withPercentiles || h.Count == 0 {
		return fs
	}
	var ps fields
	for _, p := range how.list() {
		ps = append(ps, field{fmt.Sprintf("%f", p), int64(h.Percentile(p))})
	}
	fs = append(fs, field{"percentile", ps})
	if how.plus {
		fs = append(fs, field{"bins", bins(h)})
	}
	return fs
}

func count(h *bench.Histogram) uint64 {
	if h == nil {
		return 0
	}
	return h.Count
}

// share returns a time as a percentage of another.
func share(part, whole time.Duration) number {
	if whole <= 0 {
		return 0
	}
	return number(100 * part.Seconds() / whole.Seconds())
}

// counted returns counters as percentages of their sum.
func counted(names []string, counters []uint64) fields { return numbers(names, percents(counters)) }

func percents(counters []uint64) []float64 {
	sum := uint64(0)
	for _, n := range counters {
		sum += n
	}
	values := make([]float64, len(counters))
	for i, n := range counters {
		values[i] = 100 * float64(n) / float64(max(sum, 1))
	}
	return values
}
