package benchreport

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// Dimensions of a plot, in units of its view box.
const (
	width, height            = 900, 320
	left, right, top, bottom = 70, 40, 28, 44
)

// A plot builds an SVG picture. Values are given in the unit square, with y upwards.
type plot struct{ strings.Builder }

// open starts a picture. The title is its alternative text and its tooltip.
func (p *plot) open(title string) {
	text := html.EscapeString(title)
	fmt.Fprintf(p, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s"><title>%s</title>`+"\n", width, height, text, text)
}

func (p *plot) close() template.HTML {
	p.WriteString("</svg>")
	return template.HTML(p.String())
}

func px(x float64) float64 { return left + x*(width-left-right) }
func py(y float64) float64 { return height - bottom - y*(height-top-bottom) }

// tickX and tickY draw a line of the grid with its label.
func (p *plot) tickX(x float64, label string) {
	fmt.Fprintf(p, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, px(x), py(0), px(x), py(1))
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", px(x), py(0)+18, html.EscapeString(label))
}

func (p *plot) tickY(y float64, label string) {
	fmt.Fprintf(p, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, px(0), py(y), px(1), py(y))
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n", px(0)-6, py(y)+4, html.EscapeString(label))
}

// axis labels the x axis.
func (p *plot) axis(x string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", px(0.5), height-6, html.EscapeString(x))
}

// curve draws a line through points, and its name at place n of the legend.
func (p *plot) curve(d bench.Direction, n int, xs, ys []float64) {
	var path strings.Builder
	for i := range xs {
		fmt.Fprintf(&path, "%.1f,%.1f ", px(xs[i]), py(ys[i]))
	}
	fmt.Fprintf(p, `<polyline class="curve %v" points="%s"/>`, d, strings.TrimSpace(path.String()))
	x := px(0) + 70*float64(n)
	fmt.Fprintf(p, `<line class="%v key" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, d, x, legend-4, x+16, legend-4)
	fmt.Fprintf(p, `<text class="%v" x="%.1f" y="%d">%v</text>`+"\n", d, x+22, legend, d)
}

// legend is the height at which the text of the legend is.
const legend = 16

// marks draws a line at each event, with the text as its tooltip. Events that are close to each other share a label.
func (p *plot) marks(events []Event, end float64) {
	const room = 24 // for a label
	first, last, from := 0, 0, 0.0
	label := func() {
		if last == 0 {
			return
		}
		text := strconv.Itoa(first)
		if last > first {
			text += "-" + strconv.Itoa(last)
		}
		fmt.Fprintf(p, `<text class="event" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", from, py(1)-3, text)
	}
	for i := range events {
		x := events[i].At.Seconds() / end
		if x < 0 || x > 1 {
			continue
		}
		fmt.Fprintf(p, `<g class="event"><title>%s</title><line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/></g>`+"\n",
			html.EscapeString(events[i].text()), px(x), py(0), px(x), py(1))
		if last == 0 || px(x)-from > room {
			label()
			first, from = i+1, px(x)
		}
		last = i + 1
	}
	label()
}

// decades returns the powers of ten that enclose two values.
func decades(low, high float64) (from, to int) {
	from = int(math.Floor(math.Log10(max(low, 1))))
	to = int(math.Ceil(math.Log10(max(high, 1))))
	return from, max(to, from+1)
}

// decadeName formats 10^e nanoseconds.
func decadeName(e int) string {
	units := []string{"ns", "us", "ms", "s"}
	i := min(e/3, len(units)-1)
	return fmt.Sprintf("%.0f %s", math.Pow10(e-3*i), units[i])
}

// percentilePlot plots the latency over the percentile of requests. The x axis shows the decades of the share of
// slower requests; both axes are logarithmic.
func percentilePlot(r *bench.Result) template.HTML {
	all := r.Latencies()
	var p plot
	p.open(fmt.Sprintf("latency by percentile: half of the requests within %s, 99 %% within %s, 99.9 %% within %s",
		bench.Latency(all.Percentile(50)), bench.Latency(all.Percentile(99)), bench.Latency(all.Percentile(99.9))))
	nines := max(2, math.Ceil(math.Log10(float64(max(all.Count, 1)))))
	from, to := decades(float64(all.Min), float64(all.Max))
	for i := range int(nines) + 1 {
		p.tickX(float64(i)/nines, percentileName(i))
	}
	for e := from; e <= to; e++ {
		p.tickY(float64(e-from)/float64(to-from), decadeName(e))
	}
	p.axis("percentile of requests")
	n := 0
	for d := range bench.Direction(bench.Directions) {
		h := r.Sides[d].Lat
		if h == nil || h.Count == 0 {
			continue
		}
		xs, ys := distribution(h, nines, from, to)
		p.curve(d, n, xs, ys)
		n++
	}
	return p.close()
}

// percentileName returns 0, 90, 99, 99.9 and so on.
func percentileName(nines int) string {
	if nines == 0 {
		return "0"
	}
	return strconv.FormatFloat(100-100/math.Pow10(nines), 'f', max(0, nines-2), 64)
}

// distribution returns the curve of a histogram. The last of n requests is drawn where the share of slower ones is
// 1/n, not at infinity.
func distribution(h *bench.Histogram, nines float64, from, to int) (xs, ys []float64) {
	seen := uint64(0)
	h.Each(func(start, w, count uint64) {
		v := min(max(float64(start)+float64(w)/2, float64(h.Min)), float64(h.Max))
		y := (math.Log10(max(v, 1)) - float64(from)) / float64(to-from)
		x := math.Log10(float64(h.Count)/float64(h.Count-seen)) / nines
		seen += count
		end := math.Log10(float64(h.Count) / float64(max(h.Count-seen, 1)))
		xs = append(xs, min(x, 1), min(end/nines, 1))
		ys = append(ys, min(max(y, 0), 1), min(max(y, 0), 1))
	})
	return thin(xs, ys)
}

// thin drops points that almost coincide with the one before.
func thin(xs, ys []float64) (tx, ty []float64) {
	const least = 0.0005
	for i := range xs {
		if n := len(tx); n > 0 && i < len(xs)-1 && math.Abs(xs[i]-tx[n-1]) < least && math.Abs(ys[i]-ty[n-1]) < least {
			continue
		}
		tx, ty = append(tx, xs[i]), append(ty, ys[i])
	}
	return tx, ty
}

// timePlot plots a value of each window over time. A window of the given length is a point, and a longer one a step.
func timePlot(r *bench.Result, windows []bench.Window, length time.Duration, events []Event, unit string, scale float64, value func(*bench.Window, bench.Direction) float64) template.HTML {
	var p plot
	most, end := 0.0, max(r.Elapsed.Seconds(), 1e-9)
	for i := range windows {
		for d := range bench.Direction(bench.Directions) {
			most = max(most, scale*value(&windows[i], d))
		}
	}
	p.open(fmt.Sprintf("%s over %s s, at most %s", unit, figure(end), figure(most)))
	step := niceStep(most / 4)
	roof := max(step, math.Ceil(most/step)*step)
	for k := 0; float64(k)*step <= roof*1.001; k++ {
		p.tickY(float64(k)*step/roof, figure(float64(k)*step))
	}
	second := niceStep(end / 8)
	for k := 0; float64(k)*second <= end; k++ {
		p.tickX(float64(k)*second/end, figure(float64(k)*second))
	}
	p.axis("seconds")
	p.marks(events, end)
	n := 0
	for d := range bench.Direction(bench.Directions) {
		if r.Sides[d].Ops() == 0 {
			continue
		}
		var xs, ys []float64
		for i := range windows {
			w := &windows[i]
			y := scale * value(w, d) / roof
			if w.At > 2*length { // nothing was measured in between, or most jobs had ended
				xs, ys = append(xs, w.Start.Seconds()/end), append(ys, y)
				xs, ys = append(xs, w.End.Seconds()/end), append(ys, y)
				continue
			}
			xs, ys = append(xs, (w.Start+w.End).Seconds()/2/end), append(ys, y)
		}
		p.curve(d, n, xs, ys)
		n++
	}
	return p.close()
}

// niceStep returns the least number that is at least v and 1, 2 or 5 times a power of ten.
func niceStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= v {
			return m * unit
		}
	}
	return 10 * unit
}

// figure formats a number without superfluous digits.
func figure(v float64) string {
	if v >= 10000 {
		return strconv.FormatFloat(v/1000, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
