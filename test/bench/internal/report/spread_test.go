package report

import (
	"math"
	"testing"
)

func TestSpreadOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   Spread
	}{
		{"nothing", nil, Spread{}},
		{"one", []float64{3}, Spread{3, 3, 3, 1}},
		{"odd", []float64{9, 1, 2}, Spread{2, 1, 9, 3}},
		{"even", []float64{4, 1, 2, 9}, Spread{3, 1, 9, 4}},
		{"division by zero", []float64{math.NaN(), 1, math.Inf(1)}, Spread{1, 1, 1, 1}},
	} {
		if got := SpreadOf(c.values); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	v := []float64{2, 1}
	if SpreadOf(v); v[0] != 2 {
		t.Error("the values were sorted in place")
	}
}
