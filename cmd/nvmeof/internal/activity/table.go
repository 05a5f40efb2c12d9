package activity

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// A View is one of the tables of a report.
type View int

// All views.
const (
	Namespaces View = iota
	Hosts
	Controllers
	Shards
	Transport
	Views // their number
)

// String returns the view's name.
func (v View) String() string {
	return [...]string{"namespaces", "hosts", "controllers", "shards", "transport"}[v]
}

// A Column describes a column of a table.
type Column struct {
	Title string
	Width int  // 0: what the others leave, as far as needed
	Text  bool // sorted as text, and searched by Filter
	Wide  int  // minimum line width at which the column is shown
}

// A Cell is the value of a column in a row: the text that is shown, and the sort key if that is a number.
type Cell struct {
	Text   string
	Number float64
}

// A Table is a view of a report.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	Sorted  int // the column by which it is sorted at first
}

func text(s string) Cell { return Cell{Text: nvmeof.Visible(s)} }

func number[T ~int | ~uint64 | ~float64](n T) Cell { return Cell{Rate(float64(n)), float64(n)} }

func whole[T ~int | ~uint64](n T) Cell { return Cell{fmt.Sprint(n), float64(n)} }

func megabytes(n float64) Cell { return Cell{Megabytes(n), n} }

func percent(n float64) Cell { return Cell{fmt.Sprintf("%.1f", 100*n), n} }

// took formats a quantile; empty if nothing was counted.
func took(l Latency, d time.Duration) Cell {
	if l.Count == 0 {
		return Cell{"-", -1}
	}
	return Cell{Duration(d), float64(d)}
}

// Rate formats a number in at most 6 characters.
func Rate(n float64) string {
	switch {
	case n >= 1e10:
		return fmt.Sprintf("%.0fG", n/1e9)
	case n >= 1e9:
		return fmt.Sprintf("%.2fG", n/1e9)
	case n >= 1e7:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", n/1e6)
	case n > 0 && n < 9.95:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// Megabytes formats a number of bytes in MB.
func Megabytes(n float64) string {
	n /= 1e6
	if n >= 1000 || n == 0 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

// Duration formats a duration with three digits, in at most 6 characters below 1000 s.
func Duration(d time.Duration) string {
	switch {
	case d < time.Microsecond:
		return strconv.FormatInt(int64(d), 10) + "ns"
	case d < time.Millisecond:
		return digits(float64(d)/1e3) + "µs"
	case d < time.Second:
		return digits(float64(d)/1e6) + "ms"
	}
	return digits(d.Seconds()) + "s"
}

// Short formats a duration with two or three digits, in 5 characters below 1000 s.
func Short(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Microsecond, "µs"}, {time.Millisecond, "ms"}} {
		if n := float64(d) / float64(u.unit); n < 999.5 {
			return few(n) + u.name
		}
	}
	return few(d.Seconds()) + "s"
}

func few(n float64) string {
	if n < 9.95 {
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func digits(n float64) string {
	switch {
	case n < 9.995:
		return fmt.Sprintf("%.2f", n)
	case n < 99.95:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

// Age formats an age.
func Age(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Truncate(time.Second)
	switch days := d / (24 * time.Hour); {
	case days >= 100:
		return fmt.Sprintf("%dd", days)
	case days > 0:
		return fmt.Sprintf("%dd%02dh", days, d/time.Hour%24)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d/time.Minute%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d/time.Second%60)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// size formats a size in bytes, as documents have it.
func size(n int64) Cell {
	units, v := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}, n
	for len(units) > 1 && v >= 1024 && v%1024 == 0 {
		units, v = units[1:], v/1024
	}
	return Cell{fmt.Sprint(v) + units[0], float64(n)}
}

// Table returns a view as a table.
func (r *Report) Table(v View) *Table {
	switch v {
	case Hosts:
		return hostTable(r.Hosts)
	case Controllers:
		return controllerTable(r.Controllers)
	case Shards:
		return shardTable(r.Shards)
	case Transport:
		return transportTable(r.Transport)
	}
	return namespaceTable(r.Namespaces)
}

func namespaceTable(all []Namespace) *Table {
	t := &Table{Sorted: 1, Columns: []Column{
		{Title: "NAMESPACE", Text: true}, {Title: "IOPS", Width: 6}, {Title: "READ", Width: 6}, {Title: "WRITE", Width: 6}, {Title: "INFL", Width: 4},
		{Title: "P50", Width: 6}, {Title: "P99", Width: 6}, {Title: "ST-P50", Width: 6}, {Title: "ST-P99", Width: 6}, {Title: "ERR", Width: 4},
		{Title: "STATE", Text: true, Width: 6, Wide: 100}, {Title: "SIZE", Width: 10, Wide: 120}, {Title: "EXPORT", Text: true, Wide: 140},
	}}
	for i := range all {
		n := &all[i]
		state := "ready"
		switch {
		case !n.Ready:
			state = "AWAY"
		case n.Paused:
			state = "paused"
		}
		name := text(fmt.Sprintf("%s/%d", string(n.Subsystem), n.NSID))
		if !n.Ready {
			name.Text = "! " + name.Text // also visible if the state column is not shown
		}
		t.Rows = append(t.Rows, []Cell{name, number(n.IOPS), megabytes(n.ReadBytes), megabytes(n.WrittenBytes), whole(max(n.InFlight, 0)),
			took(n.Command, n.Command.P50), took(n.Command, n.Command.P99), took(n.Store, n.Store.P50), took(n.Store, n.Store.P99), number(n.Errors),
			text(state), size(n.Size), text(exported(n))})
	}
	return t
}

// exported describes the store of a namespace. Memory without a name is called memory.
func exported(n *Namespace) string {
	if n.Export == n.Kind {
		return n.Kind
	}
	return strings.TrimSpace(n.Kind + " " + n.Export)
}

func hostTable(all []Host) *Table {
	t := &Table{Sorted: 5, Columns: []Column{
		{Title: "HOST", Text: true}, {Title: "ADDRESS", Text: true, Width: 15}, {Title: "CTRL", Width: 4}, {Title: "QUEUES", Width: 6}, {Title: "INFL", Width: 4},
		{Title: "IOPS", Width: 6}, {Title: "READ", Width: 6}, {Title: "WRITE", Width: 6},
	}}
	for i := range all {
		h := &all[i]
		address := strings.Join(h.Peers, ",")
		t.Rows = append(t.Rows, []Cell{text(string(h.Host)), text(address), whole(h.Controllers), whole(h.Queues), whole(h.InFlight),
			number(h.IOPS), megabytes(h.ReadBytes), megabytes(h.WrittenBytes)})
	}
	return t
}

func controllerTable(all []Controller) *Table {
	t := &Table{Sorted: 6, Columns: []Column{
		{Title: "SUBSYSTEM", Text: true}, {Title: "ID", Width: 5}, {Title: "HOST", Text: true}, {Title: "ADDRESS", Text: true, Width: 15},
		{Title: "Q", Width: 3}, {Title: "INFL", Width: 4}, {Title: "IOPS", Width: 6}, {Title: "READ", Width: 6}, {Title: "WRITE", Width: 6}, {Title: "SINCE", Width: 6},
		{Title: "LISTENER", Width: 8, Wide: 120}, {Title: "AUTH", Text: true, Width: 4, Wide: 120},
	}}
	for i := range all {
		c := &all[i]
		auth := "no"
		if c.Authenticated {
			auth = "yes"
		}
		subsystem := string(c.Subsystem)
		if c.Discovery {
			subsystem = "discovery"
		}
		t.Rows = append(t.Rows, []Cell{text(subsystem), whole(c.ID), text(string(c.Host)), text(c.Peer), whole(c.Queues), whole(c.InFlight),
			number(c.IOPS), megabytes(c.ReadBytes), megabytes(c.WrittenBytes), {Age(c.Age), c.Age}, whole(c.Listener), text(auth)})
	}
	return t
}

func shardTable(all []Shard) *Table {
	t := &Table{Sorted: 1, Columns: []Column{
		{Title: "SHARD", Width: 5}, {Title: "BUSY%", Width: 5}, {Title: "QUEUES", Width: 6}, {Title: "IOPS", Width: 6}, {Title: "TURNS", Width: 6},
		{Title: "TU-P50", Width: 6}, {Title: "TU-P99", Width: 6}, {Title: "IN-P50", Width: 6}, {Title: "IN-P99", Width: 6}, {Title: "OU-P50", Width: 6}, {Title: "OU-P99", Width: 6},
	}}
	for i := range all {
		s := &all[i]
		t.Rows = append(t.Rows, []Cell{whole(s.Shard), percent(s.Busy), whole(s.Queues), number(s.IOPS), number(s.Turns),
			took(s.Turn, s.Turn.P50), took(s.Turn, s.Turn.P99), took(s.FromHosts, s.FromHosts.P50), took(s.FromHosts, s.FromHosts.P99),
			took(s.ToHosts, s.ToHosts.P50), took(s.ToHosts, s.ToHosts.P99)})
	}
	return t
}

func transportTable(all []Counter) *Table {
	t := &Table{Sorted: 2, Columns: []Column{
		{Title: "COUNTER", Text: true}, {Title: "DEVICE", Text: true, Width: 20}, {Title: "RATE", Width: 8}, {Title: "TOTAL", Width: 20},
	}}
	for i := range all {
		c := &all[i]
		t.Rows = append(t.Rows, []Cell{text(c.Name), text(c.Device), number(c.Rate), whole(c.Total)})
	}
	return t
}

// Sort sorts by a column: texts ascending, numbers descending, or reversed. The sort is stable.
func (t *Table) Sort(column int, reverse bool) {
	isText := t.Columns[column].Text
	slices.SortStableFunc(t.Rows, func(a, b []Cell) int {
		order := cmp.Compare(b[column].Number, a[column].Number)
		if isText {
			order = strings.Compare(a[column].Text, b[column].Text)
		}
		if reverse {
			return -order
		}
		return order
	})
}

// Filter keeps the rows with a text that contains the words, ignoring case.
func (t *Table) Filter(words string) {
	want := strings.Fields(strings.ToLower(words))
	t.Rows = slices.DeleteFunc(t.Rows, func(row []Cell) bool {
		var all strings.Builder
		for i, c := range row {
			if t.Columns[i].Text {
				all.WriteString(strings.ToLower(c.Text) + "\n")
			}
		}
		return slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(all.String(), w) })
	})
}
