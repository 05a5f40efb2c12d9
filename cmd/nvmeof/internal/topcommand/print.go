package topcommand

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/activity"
	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// A printer prints a report.
type printer func(out io.Writer, r *activity.Report, views []activity.View, filter string) error

// printJSON prints the whole report. It may contain text from hosts, so characters that a terminal would obey are
// escaped.
func printJSON(out io.Writer, r *activity.Report, _ []activity.View, _ string) error {
	var b strings.Builder
	for _, c := range string(config.JSON(r)) {
		if c == '\n' || unicode.IsPrint(c) {
			b.WriteRune(c)
			continue
		}
		for _, u := range utf16.Encode([]rune{c}) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// page is wide enough for every column of a table, and names of any length.
const page = 1 << 16

// printText prints tables.
func printText(out io.Writer, r *activity.Report, views []activity.View, filter string) error {
	var b strings.Builder
	for _, line := range summary(r) {
		b.WriteString(line + "\n")
	}
	for _, v := range views {
		t := r.Table(v)
		t.Filter(filter)
		t.Sort(t.Sorted, false)
		l := t.Layout(page)
		fmt.Fprintf(&b, "\n%s\n%s\n", v, l.Head())
		for i, row := range t.Rows {
			if v == activity.Transport && row[3].Number == 0 {
				continue // there are many
			}
			b.WriteString(l.Row(i) + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// summary describes the target in three lines.
func summary(r *activity.Report) []string {
	t := &r.Total
	away := ""
	if t.NotReady > 0 {
		away = fmt.Sprintf(" (%d away)", t.NotReady)
	}
	return []string{
		fmt.Sprintf("%s IOPS  read %s MB/s  write %s MB/s  in flight %d  shards %.0f%% of %d", activity.Rate(t.IOPS),
			activity.Megabytes(t.ReadBytes), activity.Megabytes(t.WrittenBytes), t.InFlight, 100*t.Busy, len(r.Shards)),
		fmt.Sprintf("p50/p99 all %s store %s  fabric in %s out %s", span(t.Command), span(t.Store), span(t.FromHosts), span(t.ToHosts)),
		fmt.Sprintf("%s%s  %s  %s  errors %s/s  retransmits %s/s  drops %s/s", some(len(r.Namespaces), "namespace"), away, some(len(r.Hosts), "host"),
			some(len(r.Controllers), "controller"), activity.Rate(t.Errors), activity.Rate(r.Counted("retransmits")), activity.Rate(r.Counted("drop_"))),
	}
}

// some formats a count of things.
func some(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return fmt.Sprintf("%d %s", n, of)
}

// span formats two quantiles.
func span(l activity.Latency) string {
	if l.Count == 0 {
		return "-"
	}
	return activity.Short(l.P50) + "/" + activity.Short(l.P99)
}
