package activity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

func report() *Report { return Compare(reading(10*time.Second), reading(12*time.Second)) }

func lines(t *Table, width int) string {
	l := t.Layout(width)
	all := []string{l.Head()}
	for i := range t.Rows {
		all = append(all, l.Row(i))
	}
	return strings.Join(all, "\n")
}

// TestTables checks each view on a screen of 80 characters.
func TestTables(t *testing.T) {
	want := map[View]string{
		Namespaces: `NAMESPACE   IOPS   READ  WRITE INFL    P50    P99 ST-P50 ST-P99  ERR
s/1          150    1.0    2.0    3 17.6µs 29.9µs 5.00µs 9.90µs  0.5
! s/2          0      0      0    0      -      -      -      -    0`,
		Hosts: `HOST     ADDRESS         CTRL QUEUES INFL   IOPS   READ  WRITE
h        127.0.0.2,127.…    2      2    3    150    1.0    2.0
g        127.0.0.4          1      0    0      0      0      0`,
		Controllers: `SUBSYSTEM    ID HOST     ADDRESS           Q INFL   IOPS   READ  WRITE  SINCE
s             1 h        127.0.0.2         2    3    150    1.0    2.0    11s
s             2 h        127.0.0.3         0    0      0      0      0    12s
discovery     1 g        127.0.0.4         0    0      0      0      0    12s`,
		Shards: `SHARD BUSY% QUEUES   IOPS  TURNS TU-P50 TU-P99 IN-P50 IN-P99 OU-P50 OU-P99
    0  50.0      1    100     25 5.00µs 9.90µs      -      - 45.0µs 49.9µs
    1  25.0      1     50      0      -      - 55.0µs 59.9µs      -      -`,
		Transport: `COUNTER    DEVICE                   RATE                TOTAL
packets_in 127.0.0.1                 300                 3600
drop_old   127.0.0.1                 2.0                   24
drop_crc   127.0.0.1                 1.0                   12`,
	}
	r := report()
	for v := range Views {
		x := r.Table(v)
		x.Sort(x.Sorted, false)
		if got := lines(x, 80); got != want[v] {
			t.Errorf("%s\n%s\nwant\n%s", v, got, want[v])
		}
	}
}

func TestSortAndFilter(t *testing.T) {
	r := &Report{}
	for i, c := range []struct {
		nqn  nvmeof.NQN
		iops float64
	}{{"nqn.2026-11.org.example:B", 5}, {"nqn.2026-11.org.example:a", 30}, {"nqn.2026-11.org.Other:c", 7}, {"nqn.2026-11.org.example:d", 7}} {
		r.Namespaces = append(r.Namespaces, Namespace{Subsystem: c.nqn, NSID: i + 1, Rates: Rates{IOPS: c.iops}, Export: "/srv/x", Ready: true})
	}
	for _, c := range []struct {
		column  int
		reverse bool
		filter  string
		want    string
	}{
		{1, false, "", "a/2 c/3 d/4 B/1"},
		{1, true, "", "B/1 c/3 d/4 a/2"},
		{0, false, "", "c/3 B/1 a/2 d/4"},
		{0, true, "", "d/4 a/2 B/1 c/3"},
		{1, false, "other", "c/3"},
		{1, false, "ORG.EXAMPLE /4", "d/4"},
		{1, false, "srv", "a/2 c/3 d/4 B/1"},
		{1, false, "30", ""}, // a number is not searched
		{1, false, "nothing", ""},
	} {
		x := r.Table(Namespaces)
		x.Filter(c.filter)
		x.Sort(c.column, c.reverse)
		var got []string
		for _, row := range x.Rows {
			got = append(got, row[0].Text[strings.LastIndex(row[0].Text, ":")+1:])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestHostileNames checks that names of hosts cannot send control sequences to a terminal or change the width of a
// line.
func TestHostileNames(t *testing.T) {
	r := &Report{}
	for _, name := range []string{"\x1b[2J\x1b]0;x\a", "\u009b31m", "a\nb\tc", "\u202egnp", "\xff\xfe", strings.Repeat("語", 60), strings.Repeat("x", 300)} {
		r.Hosts = append(r.Hosts, Host{Host: nvmeof.NQN(name), Peers: []string{name}})
		r.Controllers = append(r.Controllers, Controller{Host: nvmeof.NQN(name), Subsystem: nvmeof.NQN(name), Peer: name})
		r.Namespaces = append(r.Namespaces, Namespace{Subsystem: nvmeof.NQN(name), Export: name, Kind: name})
		r.Transport = append(r.Transport, Counter{Name: name, Device: name})
	}
	for v := range Views {
		for _, width := range []int{80, 133, 1 << 16} {
			for line := range strings.SplitSeq(lines(r.Table(v), width), "\n") {
				if nvmeof.Visible(line) != line || ansi.StringWidth(line) > width {
					t.Errorf("%s, %d: %q", v, width, line)
				}
			}
		}
	}
}

// TestWide checks that a wide screen has more columns, and that a narrow one omits none of the numbers.
func TestWide(t *testing.T) {
	x := report().Table(Namespaces)
	if got := lines(x, 200); !strings.Contains(got, "EXPORT") || !strings.Contains(got, "file /a") || !strings.Contains(got, "AWAY") {
		t.Errorf("wide\n%s", got)
	}
	if got := lines(x, 20); !strings.Contains(got, "ST-P99") || strings.Contains(got, "EXPORT") {
		t.Errorf("narrow\n%s", got)
	}
}

func TestTexts(t *testing.T) {
	var got []string
	for _, d := range []time.Duration{0, 999, 1000, 9994, 9996, 99940, 99960, 999_999, time.Millisecond, 12_340_000, time.Second, 123 * time.Second} {
		got = append(got, Duration(d))
	}
	for _, d := range []time.Duration{0, 9940, 9960, 999_400, 999_600, 12 * time.Millisecond, 1500 * time.Millisecond, 999 * time.Second} {
		got = append(got, Short(d))
	}
	for _, n := range []float64{0, 0.04, 9.94, 9.96, 123456, 999_999, 1e6, 12_345_678, 2.5e9, 5e10} {
		got = append(got, Rate(n))
	}
	for _, s := range []float64{0.5, 61, 3600, 86400 * 3, 86400 * 365} {
		got = append(got, Age(s))
	}
	for _, n := range []int64{0, 1 << 30, 512, 3 << 19, 1<<20 + 1} {
		got = append(got, size(n).Text)
	}
	want := strings.Fields("0ns 999ns 1.00µs 9.99µs 10.0µs 99.9µs 100µs 1000µs 1.00ms 12.3ms 1.00s 123s 0.0µs 9.9µs 10µs 999µs 1.0ms 12ms 1.5s 999s 0 0.0 9.9 10 123456 999999 1.00M 12.3M 2.50G 50G 0s 1m01s 1h00m 3d00h 365d 0B 1GiB 512B 1536KiB 1048577B")
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", fmt.Sprint(got), fmt.Sprint(want))
	}
}
