package activity

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A Layout is a table in lines of a fixed width.
type Layout struct {
	table  *Table
	widths []int // of the columns; negative: not shown
}

// minText is the minimum width of a text column.
const minText = 8

// Layout computes the layout of a table.
func (t *Table) Layout(width int) *Layout {
	l := &Layout{t, make([]int, len(t.Columns))}
	left, open := width+1, []int{}
	for i, c := range t.Columns {
		switch {
		case width < c.Wide:
			l.widths[i] = -1
			continue
		case c.Width == 0:
			open = append(open, i)
		}
		l.widths[i] = c.Width
		left -= c.Width + 1
	}
	for len(open) > 0 { // in ascending order of need: what one leaves is for the others
		slices.SortStableFunc(open, func(a, b int) int { return t.needs(a) - t.needs(b) })
		l.widths[open[0]] = max(min(t.needs(open[0]), left/len(open)), minText)
		left -= l.widths[open[0]]
		open = open[1:]
	}
	return l
}

// needs returns the width of the texts of a column.
func (t *Table) needs(column int) int {
	w := ansi.StringWidth(t.Columns[column].Title)
	for _, row := range t.Rows {
		if n := len(row[column].Text); n > w { // never more than its length in bytes
			w = max(w, ansi.StringWidth(row[column].Text))
		}
	}
	return w
}

// Head returns the line of the titles.
func (l *Layout) Head() string {
	return l.line(func(i int) string { return l.table.Columns[i].Title })
}

// Row returns the line of a row.
func (l *Layout) Row(n int) string {
	return l.line(func(i int) string { return l.table.Rows[n][i].Text })
}

func (l *Layout) line(cell func(int) string) string {
	var b strings.Builder
	for i, w := range l.widths {
		if w < 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		s := fit(cell(i), w, l.table.Columns[i].Width == 0)
		pad := strings.Repeat(" ", max(w-ansi.StringWidth(s), 0))
		if l.table.Columns[i].Text {
			b.WriteString(s + pad)
		} else {
			b.WriteString(pad + s)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// fit truncates a text. Of a name the end is kept, since names begin alike.
func fit(s string, width int, name bool) string {
	w := ansi.StringWidth(s)
	switch {
	case w <= width:
		return s
	case name:
		end := ansi.TruncateLeft(s, w-width+1, "")
		if ansi.StringWidth(end) >= width { // a character of two columns was cut in half, and stays
			end = ansi.TruncateLeft(s, w-width+2, "")
		}
		return "…" + end
	}
	return ansi.Truncate(s, width, "…")
}
