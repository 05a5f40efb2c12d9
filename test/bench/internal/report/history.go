package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// JSON writes the report as one JSON document.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Append adds the report to a history file, one line of JSON for each run.
func (r *Report) Append(path string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return json.NewEncoder(f).Encode(r)
}

// Last returns the latest report of the same kind of machine in a history file, or nil.
func Last(path, machine string) (*Report, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	defer f.Close()
	r, err := last(f, machine)
	if err != nil {
		return nil, fmt.Errorf("history %s: %w", path, err)
	}
	return r, nil
}

const maxLine = 1 << 20

func last(from io.Reader, machine string) (found *Report, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var r Report
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d: %w: remove it", n, err)
		}
		if r.Machine == machine {
			found = &r
		}
	}
	return found, lines.Err()
}

const changeRow = "%-54s %11s %11s %9s  %s\n"

// Compare prints what has changed since an earlier report, cell by cell.
func (r *Report) Compare(w io.Writer, before *Report) error {
	old := map[string]Cell{}
	for _, c := range before.Cells {
		if c.Missing == "" {
			old[c.Name] = c
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nsince %s of %s\n", before.Revision, before.Date.Format("2006-01-02 15:04"))
	if before.Forced {
		fmt.Fprintln(&b, "which was FORCED: it is no evidence")
	}
	fmt.Fprintf(&b, changeRow, "cell", "then", "now", "change", "")
	for _, c := range r.Cells {
		if o, ok := old[c.Name]; ok && c.Missing == "" {
			fmt.Fprintf(&b, changeRow, c.Name, number(o.Median), number(c.Median), change(o.Median, c.Median), c.judge(o))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func change(then, now float64) string {
	if then == 0 {
		return ""
	}
	return fmt.Sprintf("%+.1f %%", 100*(now/then-1))
}

// judge distinguishes a change from noise. It is a change if the ranges of the rounds do not overlap.
func (c Cell) judge(before Cell) string {
	switch {
	case c.Goal.Direction == Shown || c.Min <= before.Max && before.Min <= c.Max:
		return ""
	case (c.Median > before.Median) == (c.Goal.Direction == AtLeast):
		return "better"
	}
	return "WORSE"
}
