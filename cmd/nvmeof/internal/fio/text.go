package fio

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// Normal prints like fio without --output-format, as far as it applies.
func (o *Output) Normal(w io.Writer) error {
	var b strings.Builder
	for i := range o.Groups {
		for k := range o.Groups[i].Jobs {
			o.Groups[i].Jobs[k].text(&b, o, i, &o.Groups[i])
		}
	}
	for i := range o.Groups {
		o.Groups[i].status(&b, i)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (j *Job) text(b *strings.Builder, o *Output, id int, g *Group) {
	r := j.Result
	fmt.Fprintf(b, "%s: (groupid=%d, jobs=%d): err= 0: rw=%v, bs=%s, iodepth=%d: %s\n", j.Name, id, max(j.Clones, 1), r.Pattern, sizes(r), r.Depth,
		o.Ended.Format(time.ANSIC))
	windows := r.Windows(window)
	for d := range bench.Direction(bench.Directions) {
		if r.Sides[d].Ops() > 0 {
			direction(b, r, d, windows, g, &o.Percentiles)
		}
	}
	all := spreads(r.Latencies())
	for i := range all {
		all[i].text(b, [3]string{"nsec", "usec", "msec"}[i])
	}
	if n := count(r.Flushes); n > 0 {
		fmt.Fprintf(b, "  flushes: total=%d\n", n)
		distribution(b, "lat", r.Flushes)
	}
	u := &r.Usage
	fmt.Fprintf(b, "  cpu          : usr=%.2f%%, sys=%.2f%%, ctx=%d, majf=%d, minf=%d (of the whole process)\n",
		float64(share(u.User, r.Elapsed)), float64(share(u.System, r.Elapsed)), u.Switches, u.Major, u.Minor)
	fmt.Fprintf(b, "  IO depths    : %s\n", percentList(depthNames, r.Depths[:]))
	fmt.Fprintf(b, "     submit    : %s\n", percentList(batchNames, r.Submitted[:]))
	fmt.Fprintf(b, "     complete  : %s\n", percentList(batchNames, r.Completed[:]))
	fmt.Fprintf(b, "     issued rwts: total=%d,%d,%d,%d\n", r.Sides[0].Ops(), r.Sides[1].Ops(), r.Sides[2].Ops(), count(r.Flushes))
	if r.Verify {
		fmt.Fprintf(b, "  read back and compared: %d blocks of %s\n", r.Verified, bench.Bytes(r.VerifyBlock()))
	}
}

// sizes formats the block sizes, of each direction if they differ, as fio does.
func sizes(r *bench.Result) string {
	var all []string
	for d := range bench.Direction(bench.Directions) {
		if !r.Pattern.Does(d) {
			continue
		}
		z := r.Sized(d)
		text := fmt.Sprintf("%dB", z.Least)
		if z.Most > z.Least {
			text = fmt.Sprintf("%dB-%dB", z.Least, z.Most)
		}
		all = append(all, text)
	}
	if same := slices.Compact(slices.Clone(all)); len(same) == 1 {
		return same[0]
	}
	var named []string
	for d := range bench.Direction(bench.Directions) {
		if z := r.Sized(d); r.Pattern.Does(d) {
			named = append(named, fmt.Sprintf("(%s) %dB-%dB", strings.ToUpper(d.String()[:1]), z.Least, z.Most))
		}
	}
	return strings.Join(named, ", ")
}

func direction(b *strings.Builder, r *bench.Result, d bench.Direction, windows []bench.Window, g *Group, ps *Percentiles) {
	s := &r.Sides[d]
	seconds := r.Elapsed.Seconds()
	fmt.Fprintf(b, "  %v: IOPS=%s, BW=%s (%s/%dmsec)\n", d, thousands(float64(s.Ops())/seconds), speed(float64(s.Bytes)/seconds),
		volume(s.Bytes), r.Elapsed.Milliseconds())
	distribution(b, "slat", s.Slat)
	distribution(b, "clat", s.Clat)
	distribution(b, " lat", s.Lat)
	for _, t := range []struct {
		name  string
		h     *bench.Histogram
		shown bool
	}{{"slat", s.Slat, ps.Submission}, {"clat", s.Clat, !ps.NoCompletion}, {"lat", s.Lat, ps.Whole}} {
		if t.shown {
			percentileTable(b, t.name, t.h, ps)
		}
	}
	bw := series(windows, func(w *bench.Window) float64 { return w.Rate(d) / 1024 })
	io := series(windows, func(w *bench.Window) float64 { return w.IOPS(d) })
	fmt.Fprintf(b, "   bw (  KiB/s): min=%.0f, max=%.0f, per=%.2f%%, avg=%.2f, stdev=%.2f, samples=%d\n", bw.min, bw.max, bw.of(g.rate(d)/1024), bw.mean, bw.dev, bw.n)
	fmt.Fprintf(b, "   iops        : min=%.0f, max=%.0f, avg=%.2f, stdev=%.2f, samples=%d\n", io.min, io.max, io.mean, io.dev, io.n)
}

// unitOf returns the unit in which a distribution is printed.
func unitOf(h *bench.Histogram) (name string, unit float64) {
	switch mean := h.Mean(); {
	case mean < 10e3:
		return "nsec", 1
	case mean < 10e6:
		return "usec", 1e3
	}
	return "msec", 1e6
}

func distribution(b *strings.Builder, name string, h *bench.Histogram) {
	unit, per := unitOf(h)
	fmt.Fprintf(b, "    %s (%s): min=%.0f, max=%.0f, avg=%.2f, stdev=%.2f\n", name, unit, float64(h.Min)/per, float64(h.Max)/per, h.Mean()/per, h.StdDev()/per)
}

func percentileTable(b *strings.Builder, name string, h *bench.Histogram, ps *Percentiles) {
	const perLine = 4
	unit, per := unitOf(h)
	fmt.Fprintf(b, "    %s percentiles (%s):\n", name, unit)
	width := len(fmt.Sprintf("%.0f", float64(h.Max)/per))
	digits := ps.digits()
	head := 3 // width of 100
	if digits > 0 {
		head += digits
	}
	all := ps.list()
	for i, p := range all {
		if i%perLine == 0 {
			b.WriteString("     |")
		}
		fmt.Fprintf(b, " %*.*fth=[%*.0f]", head, digits, p, width, float64(h.Percentile(p))/per)
		if i < len(all)-1 {
			b.WriteString(",")
		}
		if i%perLine == perLine-1 || i == len(all)-1 {
			b.WriteString("\n")
		}
	}
}

// text prints the nonzero shares, five per line.
func (s *spread) text(b *strings.Builder, unit string) {
	const perLine = 5
	names := s.names()
	var cells []string
	for i, share := range s.shares {
		if share > 0 {
			cells = append(cells, fmt.Sprintf("%s=%.2f%%", names[i], max(share, 0.01)))
		}
	}
	for len(cells) > 0 {
		n := min(perLine, len(cells))
		fmt.Fprintf(b, "  lat (%s)   : %s\n", unit, strings.Join(cells[:n], ", "))
		cells = cells[n:]
	}
}

func percentList(names []string, counters []uint64) string {
	var cells []string
	for i, p := range percents(counters) {
		cells = append(cells, fmt.Sprintf("%s=%.1f%%", names[i], p))
	}
	return strings.Join(cells, ", ")
}

// status prints the summary of a group.
func (g *Group) status(b *strings.Builder, id int) {
	fmt.Fprintf(b, "\nRun status group %d (all jobs):\n", id)
	for d := range bench.Direction(bench.Directions) {
		bytes, shortest, longest := uint64(0), time.Duration(0), time.Duration(0)
		for i := range g.Jobs {
			r := g.Jobs[i].Result
			if r.Sides[d].Ops() == 0 {
				continue
			}
			bytes += r.Sides[d].Bytes
			if shortest == 0 || r.Elapsed < shortest {
				shortest = r.Elapsed
			}
			longest = max(longest, r.Elapsed)
		}
		if bytes > 0 {
			fmt.Fprintf(b, "%8s: bw=%s, io=%s, run=%d-%dmsec\n", strings.ToUpper(d.String()), speed(g.rate(d)), volume(bytes),
				shortest.Milliseconds(), longest.Milliseconds())
		}
	}
}
