package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/nvmeof-go/nvmeof/test/bench/internal/child"
	"github.com/nvmeof-go/nvmeof/test/bench/internal/report"
)

// A probe is one measurement of one contender.
type probe struct {
	name string
	run  func() (child.Sample, error)
	// missing is the reason why there is no result: a program is not installed, or the probe failed.
	missing string
}

// A round has the result of each probe; the probes ran one right after the other.
type round map[string]child.Sample

// A cell computes one figure from each round.
type cell struct {
	name, unit string
	goal       report.Goal
	needs      []string // names of the probes it needs
	figure     func(round) float64
}

// A group has probes that are run in turn, round by round, so that other activity of the machine affects all of them.
// Its cells are computed from the results.
type group struct {
	probes []probe
	cells  []cell
	tally  tally
}

func (g *group) probe(name string, run func() (child.Sample, error)) {
	g.probes = append(g.probes, probe{name: name, run: run})
}

// without adds probes that cannot run.
func (g *group) without(reason string, names ...string) {
	for _, n := range names {
		g.probes = append(g.probes, probe{name: n, missing: reason})
	}
}

// A metric is one figure of a sample.
type metric func(child.Sample) float64

func p50(s child.Sample) float64    { return s.P50.Seconds() * 1e6 }
func p999(s child.Sample) float64   { return s.P999.Seconds() * 1e6 }
func iops(s child.Sample) float64   { return s.IOPS }
func bytes(s child.Sample) float64  { return s.Throughput }
func perCPU(s child.Sample) float64 { return s.IOPS / s.CPU }

// ratio adds a cell: m of one probe divided by m of another.
func (g *group) ratio(name string, goal report.Goal, m metric, over, under string) {
	g.cells = append(g.cells, cell{name, "x", goal, []string{over, under}, func(r round) float64 {
		return m(r[over]) / m(r[under])
	}})
}

// plain adds a cell: m of a probe.
func (g *group) plain(name, unit string, goal report.Goal, m metric, of string) {
	g.cells = append(g.cells, cell{name, unit, goal, []string{of}, func(r round) float64 { return m(r[of]) }})
}

// better adds a cell: the larger m of two probes.
func (g *group) better(name, unit string, goal report.Goal, m metric, a, b string) {
	g.cells = append(g.cells, cell{name, unit, goal, []string{a, b}, func(r round) float64 {
		return max(m(r[a]), m(r[b]))
	}})
}

func atMost(goal, aim float64) report.Goal {
	return report.Goal{Direction: report.AtMost, Goal: goal, Aim: aim}
}
func atLeast(goal, aim float64) report.Goal {
	return report.Goal{Direction: report.AtLeast, Goal: goal, Aim: aim}
}

// measure runs the rounds. A probe that fails is not run again, and cells that need it are left out.
func (g *group) measure(ctx context.Context, rounds int, report func(string)) (cells []report.Cell, err error) {
	var all []round
	for n := range rounds {
		r := round{}
		report(fmt.Sprintf("round %d of %d", n+1, rounds))
		for i := range g.probes {
			p := &g.probes[i]
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if p.missing != "" {
				continue
			}
			if r[p.name], err = g.tally.undisturbed(p.run); err != nil {
				p.missing = "FAILED: " + firstLine(err)
				report(fmt.Sprintf("%s: %v", p.name, err))
			}
		}
		all = append(all, r)
	}
	for _, c := range g.cells {
		cells = append(cells, g.condense(c, all))
	}
	return cells, nil
}

func (g *group) condense(c cell, all []round) report.Cell {
	out := report.Cell{Name: c.name, Unit: c.unit, Goal: c.goal}
	for _, p := range g.probes {
		for _, need := range c.needs {
			if p.name == need && p.missing != "" {
				out.Missing = p.missing
				return out
			}
		}
	}
	var values []float64
	for _, r := range all {
		values = append(values, c.figure(r))
	}
	out.Spread = report.SpreadOf(values)
	out.Verdict = c.goal.Verdict(out.Median)
	return out
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
