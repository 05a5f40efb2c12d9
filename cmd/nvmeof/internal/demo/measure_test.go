package demo

import (
	"strings"
	"testing"
)

// TestLatencyVerdict checks that an impossible result does not count as a goal that was met.
func TestLatencyVerdict(t *testing.T) {
	for trips, want := range map[float64]string{0.54: "unknown: ", 1: "holds", 2.5: "holds", 2.51: "does not hold"} {
		if got := latencyVerdict(trips); !strings.HasPrefix(got, want) {
			t.Errorf("%v round trips: %s, want %s", trips, got, want)
		}
	}
}
