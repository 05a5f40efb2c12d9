package report

import (
	"fmt"
	"io"
	"strings"
)

const (
	titleRow = "%-54s %11s %-5s %23s   %9s %9s  %s\n"
	cellRow  = "%-54s %11s %-5s %11s %11s   %9s %9s  %s\n"
)

// Table prints the report as a table.
func (r *Report) Table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %s\n", r.Machine, r.Revision, r.Date.Format("2006-01-02 15:04"))
	if r.Forced {
		fmt.Fprintf(&b, "FORCED: others used %.2f processors meanwhile, so none of this is evidence.\n", r.Others)
	}
	if r.Stolen > 0 {
		fmt.Fprintf(&b, "The hypervisor gave the processors to other machines in %.1f %% of the measurements.\n", 100*r.Stolen)
	}
	fmt.Fprintf(&b, "\n"+titleRow, "cell", "median", "", "min .. max of the rounds", "goal", "aim", "")
	for _, c := range r.Cells {
		if c.Missing != "" {
			fmt.Fprintf(&b, "%-54s left out: %s\n", c.Name, c.Missing)
			continue
		}
		fmt.Fprintf(&b, cellRow, c.Name, number(c.Median), c.Unit, number(c.Min), number(c.Max),
			c.Goal.bound(c.Goal.Goal), c.Goal.bound(c.Goal.Aim), c.Goal.Verdict(c.Median))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// bound returns a goal with the sign of its direction.
func (g Goal) bound(v float64) string {
	switch g.Direction {
	case AtMost:
		return "<= " + number(v)
	case AtLeast:
		return ">= " + number(v)
	}
	return ""
}

// number formats a number with about three digits, and thousands in groups.
func number(v float64) string {
	switch {
	case v != v || v < 0:
		return fmt.Sprint(v)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 1000:
		return fmt.Sprintf("%.1f", v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
