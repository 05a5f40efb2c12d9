package console

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/activity"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// readings holds the last two readings of the counters, shared by all pages.
type readings struct {
	mu          sync.Mutex
	before, now *control.Measures
	report      *activity.Report
}

// take adds a reading, unless it is the latest already. It returns the last two readings and the report of the time
// between them.
func (r *readings) take(m *control.Measures) (before, now *control.Measures, report *activity.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m != r.now && (r.now == nil || m.UptimeNS > r.now.UptimeNS) {
		r.before, r.now = r.now, m
		r.report = activity.Compare(r.before, r.now)
	}
	return r.before, r.now, r.report
}

func (s *server) report() *activity.Report {
	_, _, report := s.readings.take(control.ReadMeasures(s.cfg.Manager))
	return report
}

// A sample describes a namespace, or the target, at one time.
type sample struct {
	Uptime   float64     `json:"uptime"` // of the target, in seconds
	IOPS     float64     `json:"iops"`
	Read     float64     `json:"read"` // bytes per second
	Written  float64     `json:"written"`
	P50      float64     `json:"p50"` // seconds
	P99      float64     `json:"p99"`
	Errors   float64     `json:"errors"` // per second
	InFlight int         `json:"inFlight"`
	Ready    bool        `json:"ready"`
	Buckets  [][2]uint64 `json:"buckets"` // upper bounds in nanoseconds, and numbers of commands
}

// live returns a sample for the script of a page.
func (s *server) live(w http.ResponseWriter, r *http.Request, _ control.Caller) {
	before, now, report := s.readings.take(control.ReadMeasures(s.cfg.Manager))
	nqn := nvmeof.NQN(r.FormValue("nqn"))
	nsid, _ := strconv.Atoi(r.FormValue("nsid"))
	x := sample{Uptime: report.Uptime, Buckets: [][2]uint64{}}
	if n := namespaceOf(report, nqn, nsid); n != nil {
		x.IOPS, x.Read, x.Written, x.Errors, x.InFlight, x.Ready = n.IOPS, n.ReadBytes, n.WrittenBytes, n.Errors, n.InFlight, n.Ready
		x.P50, x.P99 = n.Command.P50.Seconds(), n.Command.P99.Seconds()
		x.Buckets = append(x.Buckets, activity.Histogram(before, now, nqn, nsid)...)
	}
	text, err := json.Marshal(x)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}
