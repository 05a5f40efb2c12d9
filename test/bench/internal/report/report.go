// Package report presents the results of a benchmark run: as a table, as JSON, and compared with an earlier run.
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

// A Goal is a bound that a figure must reach, and a better one that it aims at.
type Goal struct {
	Direction Direction `json:"direction,omitempty"`
	Goal      float64   `json:"goal,omitempty"`
	Aim       float64   `json:"aim,omitempty"`
}

// Verdict returns the judgement of a figure in a word or two.
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

// A Cell is one figure, or the reason why it is missing.
type Cell struct {
	Name    string `json:"name"`
	Unit    string `json:"unit,omitempty"`
	Goal    Goal   `json:"goal,omitzero"`
	Missing string `json:"missing,omitempty"`
	Spread
	Verdict string `json:"verdict,omitempty"`
}

// A Report has the results of one run. Figures of different kinds of machines cannot be compared.
type Report struct {
	Date     time.Time `json:"date"`
	Revision string    `json:"revision"`
	Machine  string    `json:"machine"`
	Full     bool      `json:"full"`
	Others   float64   `json:"others"`           // processors that other processes used meanwhile
	Stolen   float64   `json:"stolen,omitempty"` // share of the measurements that other machines disturbed
	Forced   bool      `json:"forced,omitempty"` // the report was made nevertheless
	Cells    []Cell    `json:"cells"`
}

// Failed returns how many goals were missed.
func (r *Report) Failed() (n int) {
	for _, c := range r.Cells {
		if c.Missing == "" && c.Goal.Verdict(c.Median) == "FAILS" {
			n++
		}
	}
	return n
}
