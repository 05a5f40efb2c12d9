// Package report says what a run of the benchmark found: as a table, as JSON, and
// beside what was recorded before.
package report

import (
	"time"
)

// A Direction says which figures are good.
type Direction string

const (
	Shown   Direction = ""         // no goal
	AtMost  Direction = "at most"  // less is better
	AtLeast Direction = "at least" // more is better
)

// A Goal is what a figure is to reach, and what it aims at beyond.
type Goal struct {
	Direction Direction `json:"direction,omitempty"`
	Goal      float64   `json:"goal,omitempty"`
	Aim       float64   `json:"aim,omitempty"`
}

// Verdict is one word on a figure.
func (g Goal) Verdict(figure float64) string {
	switch {
	case g.Direction == Shown:
		return ""
	case g.meets(figure, g.Aim):
		return "AIM MET"
	case g.meets(figure, g.Goal):
		return "holds"
	}
	return "FAILS"
}

func (g Goal) meets(figure, bound float64) bool {
	if g.Direction == AtMost {
		return figure <= bound
	}
	return figure >= bound
}

// A Cell is one figure, or the reason why there is none.
type Cell struct {
	Name    string `json:"name"`
	Unit    string `json:"unit,omitempty"`
	Goal    Goal   `json:"goal,omitzero"`
	Missing string `json:"missing,omitempty"`
	Spread
	Verdict string `json:"verdict,omitempty"`
}

// A Report is one run. Figures of different machine kinds do not compare.
type Report struct {
	Date     time.Time `json:"date"`
	Revision string    `json:"revision"`
	Machine  string    `json:"machine"`
	Full     bool      `json:"full"`
	Others   float64   `json:"others"`           // processors that others used meanwhile
	Stolen   float64   `json:"stolen,omitempty"` // share of the measurements that other machines disturbed
	Forced   bool      `json:"forced,omitempty"` // although others used them
	Cells    []Cell    `json:"cells"`
}

// Failed counts the goals that were missed.
func (r *Report) Failed() (n int) {
	for _, c := range r.Cells {
		if c.Missing == "" && c.Goal.Verdict(c.Median) == "FAILS" {
			n++
		}
	}
	return n
}
