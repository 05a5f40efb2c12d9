package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/process"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/report"
)

// TestMain lets the test program run as its own children, as the benchmark does.
func TestMain(m *testing.M) {
	if isChild(os.Args) {
		exit(child.Serve(os.Args[2]))
		return
	}
	os.Exit(m.Run())
}

// TestSmoke runs a few cells for a moment, and for longer if the machine is so busy that a cell got no figure.
func TestSmoke(t *testing.T) {
	if err := (process.Cores{0, 1}).Check(); err != nil {
		t.Skip(err)
	}
	idle := []string{"not yet"}
	for _, moment := range []string{"10ms", "200ms"} {
		if len(idle) > 0 {
			idle = smoke(t, moment)
		}
	}
	for _, cell := range idle {
		t.Error(cell)
	}
}

// smoke returns the cells that have no figure.
func smoke(t *testing.T, moment string) (idle []string) {
	dir := t.TempDir()
	document, history := filepath.Join(dir, "out.json"), filepath.Join(dir, "history.jsonl")
	o, err := parseOptions([]string{"-force", "-rounds", "1", "-time", moment, "-only", "^(latency|goodput)$", "-dir", dir,
		"-json", document, "-history", history, "-compare"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(context.Background(), o, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"memory 4 KiB randread QD1 p50 / raw round trip", "<= 2.00", "nothing to compare with"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing from\n%s", want, out.String())
		}
	}
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cells {
		if c.Missing != "" || c.Median <= 0 || c.Rounds != 1 {
			idle = append(idle, fmt.Sprintf("%s: %+v", c.Name, c))
		}
	}
	if len(r.Cells) < 12 {
		t.Errorf("%d cells", len(r.Cells))
	}
	return idle
}

func TestOptions(t *testing.T) {
	if err := (process.Cores{0, 1}).Check(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for _, c := range []struct{ args, err string }{
		{"", ""},
		{"-full -target-cores 1 -host-cores 0", ""},
		{"extra", "only flags"},
		{"-target-cores 0,1", "both the target's and the host's"},
		{"-target-cores x", "-target-cores"},
		{"-host-cores 1000", "processor 1000"},
		{"-only (", "-only"},
		{"-rounds 1 -record", "5 at least"},
		{"-rounds 0", "positive"},
		{"-dir " + dir + "/none", "no folder"},
		{"-nonsense", "not defined"},
	} {
		_, err := parseOptions(append([]string{"-dir", dir}, strings.Fields(c.args)...), io.Discard)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, want %q", c.args, err, c.err)
		}
	}
}

func TestGroup(t *testing.T) {
	var g group
	n := 0.0
	g.probe("a", func() (child.Sample, error) {
		n++
		return child.Sample{IOPS: n, P50: time.Microsecond}, nil
	})
	g.probe("b", func() (child.Sample, error) { return child.Sample{IOPS: 2}, nil })
	failures := 0
	g.probe("bad", func() (child.Sample, error) {
		failures++
		return child.Sample{}, errors.New("it broke\nbadly")
	})
	g.without("not installed", "none")
	g.ratio("ratio", atLeast(1, 2), iops, "a", "b")
	g.plain("plain", "us", atMost(2, 1), p50, "a")
	g.better("better", "IOPS", shown, iops, "a", "b")
	g.ratio("of bad", shown, iops, "a", "bad")
	g.ratio("of none", shown, iops, "none", "a")
	cells, err := g.measure(context.Background(), 3, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		median, least, most float64
		verdict, missing    string
	}{
		{1, 0.5, 1.5, "holds", ""}, {1, 1, 1, "AIM MET", ""}, {2, 2, 3, "", ""},
		{missing: "FAILED: it broke"}, {missing: "not installed"},
	} {
		c := cells[i]
		if math.Abs(c.Median-want.median) > 1e-9 || c.Min != want.least || c.Max != want.most || c.Verdict != want.verdict || c.Missing != want.missing {
			t.Errorf("%+v, want %+v", c, want)
		}
	}
	if failures != 1 {
		t.Errorf("what failed was run %d times", failures)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := g.measure(ctx, 1, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
}

// TestUndisturbed: a measurement is repeated while the hypervisor takes processors away, which this test cannot cause,
// and an error ends it.
func TestUndisturbed(t *testing.T) {
	var all tally
	calls := 0
	s, err := all.undisturbed(func() (child.Sample, error) {
		calls++
		return child.Sample{IOPS: 7}, nil
	})
	if err != nil || s.IOPS != 7 || calls < 1 || calls > stolenTries || all.taken != 1 {
		t.Errorf("%+v, %v after %d calls; %+v", s, err, calls, all)
	}
	failed := errors.New("failed")
	if _, err := all.undisturbed(func() (child.Sample, error) { return child.Sample{}, failed }); !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
}
