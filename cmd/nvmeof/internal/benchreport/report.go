package benchreport

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// A Report is the content of the page.
type Report struct {
	Title   string
	Ended   time.Time
	Setting []Row // machine, versions, command line
	Jobs    []Job
	Versus  *Versus    // nil: nothing was compared
	Paths   [][]string // a line for each path used, with the columns PathColumns
	Events  []Event    // of the paths, in order
	JSON    []byte     // the same for programs, in fio's format, embedded in the page
}

// A Row is a row of the table of the setting.
type Row struct{ Name, Value string }

// PathColumns are the columns of a line about a path.
var PathColumns = []string{"path", "state", "reconnected", "requests", "errors"}

// An Event is something that happened at a time since the measurement began.
type Event struct {
	At   time.Duration
	Text string
}

func (e *Event) text() string { return fmt.Sprintf("%.3f s: %s", e.At.Seconds(), e.Text) }

// Seconds formats the time for the page.
func (e Event) Seconds() string { return fmt.Sprintf("%.3f", e.At.Seconds()) }

// A Job is one job, or several combined.
type Job struct {
	Name   string
	Result *bench.Result
}

// Versus is a comparison: columns, and a row for each contender.
type Versus struct {
	Columns []string
	Rows    [][]string
	Note    string
}

// figures are the columns of the table of figures.
var figures = []string{"job", "", "requests", "IOPS", "MB/s", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"}

type page struct {
	*Report
	Figures           []string
	PathColumns       []string
	Lines             [][]string
	CPU               string
	Percentiles       template.HTML
	IOPS, Rate, Delay template.HTML
	Data              template.JS
}

//go:embed page.html
var source string

// Write writes the page.
func (r *Report) Write(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"inc": func(i int) int { return i + 1 }}).Parse(source)
	if err != nil {
		return err
	}
	results := make([]*bench.Result, len(r.Jobs))
	p := page{Report: r, Figures: figures, PathColumns: PathColumns, Data: template.JS(r.JSON)}
	for i, j := range r.Jobs {
		results[i] = j.Result
		p.Lines = append(p.Lines, lines(j.Name, j.Result)...)
	}
	all := bench.Merge(results)
	if len(r.Jobs) > 1 {
		p.Lines = append(p.Lines, lines("all", all)...)
	}
	if s := all.Elapsed.Seconds(); s > 0 {
		p.CPU = fmt.Sprintf("%.2f processors of this machine (%.2f user, %.2f system), all of this process; %.0f context switches a second",
			(all.Usage.User+all.Usage.System).Seconds()/s, all.Usage.User.Seconds()/s, all.Usage.System.Seconds()/s, float64(all.Usage.Switches)/s)
	}
	p.Percentiles = percentilePlot(all)
	length := max(all.Elapsed/points, minWindow)
	windows := all.Windows(length)
	p.IOPS = timePlot(all, windows, length, r.Events, "requests a second", 1, func(w *bench.Window, d bench.Direction) float64 { return w.IOPS(d) })
	p.Rate = timePlot(all, windows, length, r.Events, "MB/s", 1e-6, func(w *bench.Window, d bench.Direction) float64 { return w.Rate(d) })
	p.Delay = timePlot(all, windows, length, r.Events, "mean latency, us", 1e-3, meanLatency)
	return t.Execute(w, &p)
}

// A plot over time has some 200 points, at least ten milliseconds apart.
const (
	points    = 200
	minWindow = 10 * time.Millisecond
)

func meanLatency(w *bench.Window, d bench.Direction) float64 {
	if w.Ops[d] == 0 {
		return 0
	}
	return float64(w.Slat[d]+w.Clat[d]) / float64(w.Ops[d])
}

// lines returns the figures of a job, one line for each direction.
func lines(name string, r *bench.Result) (all [][]string) {
	for d := range bench.Direction(bench.Directions) {
		s := &r.Sides[d]
		if s.Ops() == 0 {
			continue
		}
		seconds := max(r.Elapsed.Seconds(), 1e-9)
		line := []string{name, d.String(), fmt.Sprint(s.Ops()), fmt.Sprintf("%.0f", float64(s.Ops())/seconds), fmt.Sprintf("%.1f", float64(s.Bytes)/seconds/1e6),
			latency(s.Lat.Min), bench.Latency(time.Duration(s.Lat.Mean()))}
		for _, p := range []float64{50, 90, 99, 99.9, 99.99} {
			line = append(line, bench.Latency(s.Lat.Percentile(p)))
		}
		all = append(all, append(line, latency(s.Lat.Max)))
	}
	return all
}

func latency(ns uint64) string { return bench.Latency(time.Duration(ns)) }
