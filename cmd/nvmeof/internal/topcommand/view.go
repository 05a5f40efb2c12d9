package topcommand

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof/internal/activity"
	"github.com/nvmeof-go/nvmeof/nvmeof"
)

// headLines is the number of lines above the rows: the target, three of its activity, the views, the titles.
const headLines = 6

// keys is the text of the last line if there is room.
const keys = "1-5 view  <> sort  r reverse  / filter  ? help  q quit"

const keyHelp = `
  1 to 5, tab   namespaces, hosts, controllers, shards, transport
  < > s         sort by the column before, or the next one
  r             the other way round
  /             filter: only rows with these words; enter ends it, esc clears it
  up, down, pgup, pgdn, home, end    other rows
  q             quit

  READ and WRITE are MB/s, INFL commands in flight, ERR those that failed in a
  second. P50 and P99 are of commands, from their arrival until the response
  was sent, and ST-P50 and ST-P99 of the part in which the store had them. The
  fabric is counted for each shard, not for each namespace: IN are RDMA READs
  of what hosts write, OU are RDMA WRITEs of what they read, until they were
  acknowledged. TU are turns of a shard's loop.

  Any key leaves this.`

// lines returns the lines of the screen, none wider than the screen.
func (s *screen) lines() []string {
	all := []string{s.style(bold, s.title())}
	if s.help {
		all = append(all, strings.Split(keyHelp, "\n")...)
		return s.cut(all)
	}
	all = append(all, s.summary()...)
	all = append(all, s.tabs())
	if s.table == nil {
		return s.cut(all)
	}
	l := s.table.Layout(s.width)
	all = append(all, s.style(bold, l.Head()))
	for i := s.first; i < min(s.first+s.room(), len(s.table.Rows)); i++ {
		all = append(all, l.Row(i))
	}
	for len(all) < s.height-1 {
		all = append(all, "")
	}
	return s.cut(append(all[:max(s.height-1, 0)], s.foot()))
}

// cut fits lines into the screen.
func (s *screen) cut(lines []string) []string {
	lines = lines[:min(len(lines), s.height)]
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], s.width, "…")
	}
	return lines
}

// Text attributes of a terminal (SGR). Without colours only bold and inverse remain.
const (
	bold    = "\x1b[1m"
	inverse = "\x1b[7m"
	alarm   = "\x1b[1;31m"
	plain   = "\x1b[m"
)

func (s *screen) style(how, text string) string {
	return how + ansi.Truncate(text, s.width, "…") + plain
}

func (s *screen) title() string {
	text := "nvmeof top  " + nvmeof.Visible(s.target)
	if s.report == nil {
		return text
	}
	text += fmt.Sprintf("  process %d  up %s", s.report.PID, activity.Age(s.report.Uptime))
	if s.report.SinceStart {
		text += " (rates since then)"
	}
	at := s.at.Format(time.TimeOnly)
	return text + strings.Repeat(" ", max(s.width-ansi.StringWidth(text)-len(at), 2)) + at
}

// summary returns three lines. An error replaces the last one.
func (s *screen) summary() []string {
	out := []string{"", "", ""}
	if s.report != nil {
		out = summary(s.report)
	}
	switch {
	case s.lost != nil:
		out[2] = s.style(alarm, s.lostLine())
	case s.report == nil:
		out[0] = "reading"
	}
	return out
}

func (s *screen) tabs() string {
	var b strings.Builder
	for v := range activity.Views {
		name := fmt.Sprintf(" %d %s ", int(v)+1, v)
		if v == s.view {
			name = inverse + name + plain
		}
		b.WriteString(name)
	}
	return b.String()
}

// foot returns the last line: the filter while it is typed, otherwise what the rows show, and the keys.
func (s *screen) foot() string {
	if s.typing {
		return s.style(inverse, "filter: "+s.filter+"_")
	}
	n := len(s.table.Rows)
	o := s.orders[s.view]
	text := fmt.Sprintf("%d-%d of %d by %s", min(s.first+1, n), min(s.first+s.room(), n), n, s.table.Columns[o.column].Title)
	if o.reverse {
		text += " reversed"
	}
	if s.filter != "" {
		text += fmt.Sprintf(", with %q", s.filter)
	}
	if gap := s.width - ansi.StringWidth(text) - len(keys); gap >= 2 {
		text += strings.Repeat(" ", gap) + keys
	} else {
		text += "  ? help"
	}
	return s.style(inverse, text)
}
