package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// A sample is the resource use of a process at a time.
type sample struct {
	At         time.Duration // since the first sample
	RSS        int64
	FDs        int
	Threads    int
	Goroutines int // 0: not known
}

// look reads the resource use of a process from /proc.
func look(pid int) (s sample, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return s, err
	}
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(string(f[1]), 10, 64)
		switch string(f[0]) {
		case "VmRSS:":
			s.RSS = n << 10
		case "Threads:":
			s.Threads = int(n)
		}
	}
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	s.FDs = len(names)
	if s.RSS == 0 {
		err = errors.Join(err, errors.New("it has ended"))
	}
	return s, err
}

// A growth compares the lower quartiles of the first and the last tenth of a process's samples. Samples during attacks
// of the gremlin and shortly after are left out.
type growth struct {
	Process string
	Hours   float64
	What    []grown
}

type grown struct {
	Name        string
	First, Last float64
	PerHour     float64 // by least squares
	Allowed     float64 // larger growth is a leak
}

// grows returns the names of the resources that have grown too much.
func (g *growth) grows() (names []string) {
	if g.Hours < enough.Hours() {
		return nil
	}
	for _, w := range g.What {
		if w.Last-w.First > w.Allowed {
			names = append(names, w.Name)
		}
	}
	return names
}

const (
	warming = 2 * time.Minute  // after the start of a process its samples do not count
	least   = 40               // samples for a comparison
	enough  = 20 * time.Minute // from the first to the last sample, before growth is judged
)

// judgeGrowth returns the growth of a process, or false if there are too few samples.
func judgeGrowth(name string, samples []sample) (growth, bool) {
	i, _ := slices.BinarySearchFunc(samples, warming, func(s sample, at time.Duration) int { return int(s.At - at) })
	samples = samples[i:]
	if len(samples) < least {
		return growth{}, false
	}
	g := growth{Process: name, Hours: (samples[len(samples)-1].At - samples[0].At).Hours()}
	for _, w := range []struct {
		name    string
		of      func(sample) float64
		allowed func(first float64) float64
	}{
		// The memory of a Go program varies: a heap grows to twice its live size before it is collected, and memory
		// once mapped stays mapped.
		{"memory, MiB", func(s sample) float64 { return float64(s.RSS) / (1 << 20) }, func(f float64) float64 { return 12 + f/5 }},
		{"descriptors", func(s sample) float64 { return float64(s.FDs) }, func(float64) float64 { return 6 }},
		{"threads", func(s sample) float64 { return float64(s.Threads) }, func(float64) float64 { return 8 }},
		{"goroutines", func(s sample) float64 { return float64(s.Goroutines) }, func(float64) float64 { return 10 }},
	} {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = w.of(s)
		}
		tenth := len(values) / 10
		first, last := floor(values[:tenth]), floor(values[len(values)-tenth:])
		g.What = append(g.What, grown{w.name, first, last, slope(samples, values), w.allowed(first)})
	}
	return g, true
}

// floor returns the lower quartile, which a leak raises also between attacks.
func floor(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/4]
}

// slope returns the growth per hour by linear regression.
func slope(samples []sample, values []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i, s := range samples {
		x := s.At.Hours()
		sx, sy, sxx, sxy = sx+x, sy+values[i], sxx+x*x, sxy+x*values[i]
	}
	n := float64(len(samples))
	d := n*sxx - sx*sx
	if d == 0 {
		return 0
	}
	return (n*sxy - sx*sy) / d
}

// thin drops every other sample if there are too many.
func thin(samples []sample) []sample {
	if len(samples) < 20000 {
		return samples
	}
	out := samples[:0]
	for i := 0; i < len(samples); i += 2 {
		out = append(out, samples[i])
	}
	return out
}
