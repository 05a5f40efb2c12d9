package report

import (
	"math"
	"slices"
)

// A Spread summarizes a figure that was measured several times.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// SpreadOf summarizes values. It ignores infinities and NaNs.
func SpreadOf(values []float64) Spread {
	v := slices.DeleteFunc(slices.Clone(values), func(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) })
	if len(v) == 0 {
		return Spread{}
	}
	slices.Sort(v)
	middle := len(v) / 2
	median := v[middle]
	if len(v)%2 == 0 {
		median = (v[middle-1] + v[middle]) / 2
	}
	return Spread{Median: median, Min: v[0], Max: v[len(v)-1], Rounds: len(v)}
}
