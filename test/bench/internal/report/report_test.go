package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVerdict(t *testing.T) {
	most, least := Goal{AtMost, 2, 1.5}, Goal{AtLeast, 0.7, 0.9}
	for _, c := range []struct {
		goal   Goal
		figure float64
		want   string
	}{
		{most, 2.1, "FAILS"}, {most, 2, "holds"}, {most, 1.5, "AIM MET"},
		{least, 0.6, "FAILS"}, {least, 0.7, "holds"}, {least, 1, "AIM MET"},
		{Goal{}, 7, ""},
		{Goal{AtMost, 0, 0}, 0, "AIM MET"},
	} {
		if got := c.goal.Verdict(c.figure); got != c.want {
			t.Errorf("%v of %v: %q, want %q", c.goal, c.figure, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		v    float64
		want string
	}{
		{0, "0.00"}, {1.234, "1.23"}, {12.34, "12.3"}, {999.9, "999.9"}, {1000, "1,000"}, {1234567, "1,234,567"}, {-1, "-1"},
	} {
		if got := number(c.v); got != c.want {
			t.Errorf("%v: %q, want %q", c.v, got, c.want)
		}
	}
}

func sample() *Report {
	return &Report{
		Date: time.Unix(0, 0).UTC(), Revision: "abc", Machine: "toaster",
		Cells: []Cell{
			{Name: "latency", Unit: "x", Goal: Goal{AtMost, 2, 1.5}, Spread: Spread{Median: 2.5, Min: 2.4, Max: 2.6, Rounds: 5}},
			{Name: "rate", Unit: "IOPS", Goal: Goal{AtLeast, 1000, 2000}, Spread: Spread{Median: 1500, Min: 1400, Max: 1600, Rounds: 5}},
			{Name: "other", Missing: "it is not installed"},
		},
	}
}

func TestTable(t *testing.T) {
	r := sample()
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"toaster, abc, 1970", "<= 2.00", "<= 1.50  FAILS", "1,400       1,600", ">= 1,000", "holds", "left out: it is not installed"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing from\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "FORCED") || r.Failed() != 1 {
		t.Errorf("%d failed:\n%s", r.Failed(), b.String())
	}
	r.Forced, r.Others = true, 0.5
	b.Reset()
	if _ = r.Table(&b); !strings.Contains(b.String(), "FORCED: others used 0.50") {
		t.Errorf("not said to be forced:\n%s", b.String())
	}
}

func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	if r, err := Last(path, "toaster"); r != nil || err != nil {
		t.Errorf("of no file: %v, %v", r, err)
	}
	for _, revision := range []string{"one", "two", "elsewhere"} {
		r := sample()
		if r.Revision = revision; revision == "elsewhere" {
			r.Machine = "mainframe"
		}
		if err := r.Append(path); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Last(path, "toaster")
	if err != nil || r.Revision != "two" || len(r.Cells) != 3 || r.Cells[0].Median != 2.5 {
		t.Errorf("last: %+v, %v", r, err)
	}
	if r, err := Last(path, "abacus"); r != nil || err != nil {
		t.Errorf("of another machine: %v, %v", r, err)
	}
	if err := os.WriteFile(path, []byte("{}\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Last(path, "toaster"); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("of nonsense: %v", err)
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name           string
		goal           Direction
		then, now, max float64
		want           string
	}{
		{"slower", AtLeast, 2, 1, 1.1, "-50.0 %  WORSE"},
		{"faster", AtLeast, 1, 2, 2, "+100.0 %  better"},
		{"longer", AtMost, 1, 2, 2, "+100.0 %  WORSE"},
		{"shorter", AtMost, 2, 1, 1, "-50.0 %  better"},
		{"noise", AtLeast, 2, 1.9, 2.1, "-5.0 %  \n"},
		{"no goal", Shown, 2, 1, 1, "-50.0 %  \n"},
	} {
		cell := func(v, most float64) *Report {
			return &Report{Cells: []Cell{{Name: c.name, Goal: Goal{Direction: c.goal}, Spread: Spread{Median: v, Min: v, Max: most}}}}
		}
		var b strings.Builder
		if err := cell(c.now, c.max).Compare(&b, cell(c.then, c.then)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: want %q in\n%s", c.name, c.want, b.String())
		}
	}
}

func TestJSON(t *testing.T) {
	var b strings.Builder
	if err := sample().JSON(&b); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal([]byte(b.String()), &r); err != nil || len(r.Cells) != 3 || r.Cells[1].Max != 1600 {
		t.Errorf("%+v, %v", r, err)
	}
}
