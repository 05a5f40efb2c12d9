package topcommand

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/activity"
	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/nvmeof/control"
)

// A screen is the state of what top shows. It uses neither a terminal nor a clock.
type screen struct {
	target        string // its socket
	width, height int

	view   activity.View
	orders [activity.Views]order
	filter string
	typing bool // the user is typing the filter
	help   bool
	first  int // first row on the screen

	now    *control.Measures
	report *activity.Report // nil: none yet
	at     time.Time        // when it was read
	lost   error            // why there is none since then
	table  *activity.Table  // the view of the report, sorted and filtered
}

// An order is how a view is sorted.
type order struct {
	column  int
	reverse bool
}

func newScreen(target string, view activity.View, filter string) *screen {
	s := &screen{target: target, view: view, filter: filter, width: 80, height: 24}
	for v := range activity.Views {
		s.orders[v].column = new(activity.Report).Table(v).Sorted
	}
	return s
}

// read stores a reading, or the error of a failed one.
func (s *screen) read(m *control.Measures, err error, at time.Time) {
	if s.lost = err; err != nil {
		return
	}
	if s.now != nil && s.now.PID == m.PID && s.now.Started.Equal(m.Started) && s.now.UptimeNS == m.UptimeNS {
		return // the target has not read its counters since
	}
	s.report = activity.Compare(s.now, m)
	s.now, s.at = m, at
	s.arrange()
}

// arrange rebuilds the table.
func (s *screen) arrange() {
	if s.report == nil {
		return
	}
	s.table = s.report.Table(s.view)
	s.table.Filter(s.filter)
	s.table.Sort(s.orders[s.view].column, s.orders[s.view].reverse)
	s.scroll(0)
}

// scroll scrolls by the given number of rows, at most to the last.
func (s *screen) scroll(rows int) {
	n := 0
	if s.table != nil {
		n = len(s.table.Rows)
	}
	s.first = max(min(s.first+rows, n-s.room()), 0)
}

// room returns the number of rows on the screen.
func (s *screen) room() int { return max(s.height-headLines-1, 1) }

// press handles a key, and reports whether the program ends.
func (s *screen) press(key string) (end bool) {
	switch {
	case key == "ctrl+c":
		return true
	case s.typing:
		s.edit(key)
	case s.help: // any key leaves it
		s.help = false
	case key == "q":
		return true
	case key == "?" || key == "h":
		s.help = true
	case key == "/":
		s.typing = true
	case key == "esc":
		s.filter = ""
	case len(key) == 1 && key[0] >= '1' && int(key[0]-'1') < int(activity.Views):
		s.view, s.first = activity.View(key[0]-'1'), 0
	case key == "tab":
		s.view, s.first = (s.view+1)%activity.Views, 0
	default:
		s.move(key)
		return false
	}
	s.arrange()
	return false
}

// move handles the keys that change the order or the visible rows.
func (s *screen) move(key string) {
	o := &s.orders[s.view]
	columns := len(new(activity.Report).Table(s.view).Columns)
	switch key {
	case "s", ">":
		*o = order{column: (o.column + 1) % columns}
	case "<":
		*o = order{column: (o.column + columns - 1) % columns}
	case "r":
		o.reverse = !o.reverse
	case "down", "j":
		s.scroll(1)
	case "up", "k":
		s.scroll(-1)
	case "pgdown", "space":
		s.scroll(s.room())
	case "pgup":
		s.scroll(-s.room())
	case "home", "g":
		s.first = 0
	case "end", "G":
		s.scroll(1 << 30)
	}
	s.arrange()
}

// edit handles a key while the filter is typed.
func (s *screen) edit(key string) {
	switch key {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.filter = false, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(s.filter)
		s.filter = s.filter[:len(s.filter)-n]
	case "ctrl+u":
		s.filter = ""
	case "space":
		s.put(" ")
	default:
		if utf8.RuneCountInString(key) == 1 {
			s.put(key)
		}
	}
}

// maxFilter is the maximum length of a filter.
const maxFilter = 256

// put appends text to the filter.
func (s *screen) put(text string) {
	if len(s.filter)+len(text) <= maxFilter {
		s.filter += nvmeof.Visible(text)
	}
	s.arrange()
}

// lostLine says that the target does not answer.
func (s *screen) lostLine() string {
	since := ""
	if s.report != nil {
		since = " since " + s.at.Format(time.TimeOnly)
	}
	why := nvmeof.Visible(strings.ReplaceAll(s.lost.Error(), "\n", " "))
	return fmt.Sprintf("no answer%s, trying again: %s", since, why)
}
