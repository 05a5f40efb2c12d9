package fio

import (
	"strconv"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// An Output holds everything that can be printed.
type Output struct {
	Program string // name and version of the measuring program
	Ended   time.Time
	Global  []Option // of all jobs
	Groups  []Group
	Extra   any // data that fio's format has no place for, under the key "nvmeof"; nil: none
	Percentiles
}

// Percentiles selects the percentiles that are reported, and of which latencies. The zero value is fio's default.
type Percentiles struct {
	List         []float64 // ascending; nil: fio's
	Submission   bool      // also of submission latencies
	NoCompletion bool      // not of completion latencies
	Whole        bool      // also of total latencies
}

func (p *Percentiles) list() []float64 {
	if p.List == nil {
		return percentiles[:]
	}
	return p.List
}

// digits returns the number of decimals with which they are printed: as many as the longest needs, and none if all are
// whole.
func (p *Percentiles) digits() (n int) {
	for _, v := range p.list() {
		text := strconv.FormatFloat(v, 'f', -1, 64)
		if _, behind, ok := strings.Cut(text, "."); ok {
			n = max(n, len(behind))
		}
	}
	return min(n, 6)
}

// An Option is an option that the user gave, by its name in fio.
type Option struct{ Name, Value string }

// A Group is a group of jobs that are reported together: those with the same group ID in fio.
type Group struct {
	Jobs []Job
}

// A Job is one job, or several combined.
type Job struct {
	Name    string
	Options []Option
	Clones  int // number of combined jobs
	Result  *bench.Result
}

// rate returns the sum of all jobs of the group in bytes per second.
func (g *Group) rate(d bench.Direction) (sum float64) {
	for i := range g.Jobs {
		r := g.Jobs[i].Result
		if r.Elapsed > 0 {
			sum += float64(r.Sides[d].Bytes) / r.Elapsed.Seconds()
		}
	}
	return sum
}

// window is the length of the intervals whose extremes are reported (fio's bwavgtime and iopsavgtime).
const window = 500 * time.Millisecond

// percentiles are fio's default percentiles.
var percentiles = [...]float64{1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99}
