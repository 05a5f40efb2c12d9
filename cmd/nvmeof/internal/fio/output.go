package fio

import (
	"strconv"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// An Output is all that there is to print.
type Output struct {
	Program string // the name and version of who measured
	Ended   time.Time
	Global  []Option // of all jobs
	Groups  []Group
	Extra   any // what fio has no place for: the key "nvmeof"; nil: nothing
	Percentiles
}

// Percentiles are which ones are reported, and of what. The zero value is what fio
// does by itself.
type Percentiles struct {
	List         []float64 // ascending; nil: fio's
	Submission   bool      // of submission latencies too
	NoCompletion bool      // not of completion latencies
	Whole        bool      // of both together too
}

func (p *Percentiles) list() []float64 {
	if p.List == nil {
		return percentiles[:]
	}
	return p.List
}

// digits are those behind the point with which they are printed: as many as one needs,
// and none where all are whole.
func (p *Percentiles) digits() (n int) {
	for _, v := range p.list() {
		text := strconv.FormatFloat(v, 'f', -1, 64)
		if _, behind, ok := strings.Cut(text, "."); ok {
			n = max(n, len(behind))
		}
	}
	return min(n, 6)
}

// An Option is one that the user gave, by its name in fio.
type Option struct{ Name, Value string }

// A Group is the jobs that are reported together: in fio's words, those of one group
// id.
type Group struct {
	Jobs []Job
}

// A Job is one job, or several in one.
type Job struct {
	Name    string
	Options []Option
	Clones  int // how many it stands for
	Result  *bench.Result
}

// rate is bytes a second of all jobs of the group.
func (g *Group) rate(d bench.Direction) (sum float64) {
	for i := range g.Jobs {
		r := g.Jobs[i].Result
		if r.Elapsed > 0 {
			sum += float64(r.Sides[d].Bytes) / r.Elapsed.Seconds()
		}
	}
	return sum
}

// window is how long the parts of a measurement are whose extremes are reported
// (fio's bwavgtime and iopsavgtime).
const window = 500 * time.Millisecond

// percentiles are those that fio reports.
var percentiles = [...]float64{1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99}
