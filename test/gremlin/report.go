package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A table prints each row when it is complete, because a row takes long.
type table struct{ out io.Writer }

func newTable(out io.Writer) *table {
	fmt.Fprintf(out, "%-18s %9s %9s %9s %7s %7s %5s %10s %9s %7s %9s %-28s %s\n",
		"attack", "sent", "got", "before/s", "during", "after", "ratio", "processors", "p99", "x p99", "newcomer", "left behind", "verdict")
	return &table{out}
}

func (t *table) row(r result) {
	if r.skipped != "" {
		fmt.Fprintf(t.out, "%-18s %s\n", r.name, r.skipped)
		return
	}
	times := 0.0
	if r.before.P99 > 0 {
		times = float64(r.during.P99) / float64(r.before.P99)
	}
	left := "nothing"
	switch {
	case len(r.left) > 0:
		left = strings.Join(r.left, ", ")
	case r.took > time.Second:
		left = fmt.Sprintf("nothing after %v", r.took.Round(time.Second))
	}
	verdict := "held"
	if len(r.faults) > 0 {
		verdict = "BROKE: " + strings.Join(r.faults, "; ")
	}
	fmt.Fprintf(t.out, "%-18s %9d %9d %9.0f %7.0f %7.0f %5.2f %10.2f %9v %7.1f %9v %-28s %s\n", r.name, r.sent, r.got, r.before.Rate, r.during.Rate, r.after.Rate, r.ratio(), 1-r.crowded,
		r.during.P99.Round(10*time.Microsecond), times, r.newcomer.Round(time.Millisecond), left, verdict)
}
