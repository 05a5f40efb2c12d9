package fio

import (
	"math"

	"github.com/nvmeof-go/nvmeof/internal/bench"
)

// extent holds the statistics of a figure over time that fio prints.
type extent struct {
	min, max, mean, dev float64
	n                   int
}

// series returns the extent of a figure over the windows.
func series(windows []bench.Window, value func(*bench.Window) float64) (e extent) {
	sum, squares := 0.0, 0.0
	for i := range windows {
		v := value(&windows[i])
		if e.n == 0 || v < e.min {
			e.min = v
		}
		e.max = max(e.max, v)
		sum += v
		squares += v * v
		e.n++
	}
	if e.n == 0 {
		return e
	}
	e.mean = sum / float64(e.n)
	e.dev = math.Sqrt(max(0, squares/float64(e.n)-e.mean*e.mean))
	return e
}

// of returns the mean as a percentage of a whole.
func (e *extent) of(whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(100, 100*e.mean/whole)
}
