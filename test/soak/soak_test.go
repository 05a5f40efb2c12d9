package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
	"github.com/nvmeof-go/nvmeof/test/soak/internal/client"
)

// samplesOf returns the samples of a number of hours, one every five seconds.
func samplesOf(hours float64, of func(h float64) sample) (all []sample) {
	for at := time.Duration(0); at.Hours() < hours; at += every {
		s := of(at.Hours())
		s.At = at
		all = append(all, s)
	}
	return all
}

// TestGrowth: a leak is found within an hour, and normal variation is not reported.
func TestGrowth(t *testing.T) {
	const mib = 1 << 20
	steady := sample{RSS: 60 * mib, FDs: 30, Threads: 12, Goroutines: 20}
	for _, c := range []struct {
		name  string
		hours float64
		of    func(h float64) sample
		want  []string
	}{
		{"steady", 1, func(float64) sample { return steady }, nil},
		{"breathing", 8, func(h float64) sample {
			s := steady
			s.RSS += int64(20 * mib * math.Sin(h*40))
			s.FDs += int(3 * math.Sin(h*100))
			return s
		}, nil},
		{"warming", 1, func(h float64) sample {
			s := steady
			if h < warming.Hours() {
				s.RSS, s.Goroutines = 5*mib, 3
			}
			return s
		}, nil},
		{"memory", 1, func(h float64) sample { s := steady; s.RSS += int64(60 * mib * h); return s }, []string{"memory, MiB"}},
		{"descriptors", 1, func(h float64) sample { s := steady; s.FDs += int(20 * h); return s }, []string{"descriptors"}},
		{"threads and goroutines", 1, func(h float64) sample {
			s := steady
			s.Threads += int(20 * h)
			s.Goroutines += int(30 * h)
			return s
		}, []string{"threads", "goroutines"}},
	} {
		g, ok := judgeGrowth(c.name, samplesOf(c.hours, c.of))
		if got := g.grows(); !ok || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v grow, want %v: %+v", c.name, got, c.want, g)
		}
	}
	g, _ := judgeGrowth("slope", samplesOf(1, func(h float64) sample { return sample{RSS: int64(60 * mib * h)} }))
	if s := g.What[0].PerHour; math.Abs(s-60) > 0.1 {
		t.Errorf("60 MiB an hour are said to be %v", s)
	}
	if _, ok := judgeGrowth("short", samplesOf(0.05, func(float64) sample { return steady })); ok {
		t.Error("three minutes are judged")
	}
}

// TestPieces: the counters of one run are included in the next, and the table shows them.
func TestPieces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "totals.json")
	none, err := loadTotals(path)
	if err != nil || none.Pieces != 0 || none.Hosts == nil {
		t.Fatalf("%+v, %v", none, err)
	}
	a := totals{Pieces: 2, Time: 90 * time.Minute, Kills: map[string]int{"target": 7, "host": 3}, Stall: 9 * time.Second,
		Actions: map[string]int{"cut": 4}, Errors: map[string]uint64{"churn": 5}, Hosts: map[string]*client.Counts{"one": {Reads: 11, Verified: 22, Errors: map[string]uint64{"path lost": 6}}}}
	a.Hosts["one"].Latency.Count(3 * time.Millisecond)
	a.Returns.Count(1500 * time.Millisecond)
	leak, _ := judgeGrowth("target lasting", samplesOf(1, func(h float64) sample { return sample{RSS: 1 << 20, FDs: int(50 * h), Threads: 5} }))
	a.Growths = []growth{leak}
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var again totals
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	text := again.String()
	for _, want := range []string{"1.50 h in 2 pieces", "targets 7 times, hosts 3 times", "max 1.5 s", "cut 4", "3.0 ms", "5  churn", "6  one, path lost", "GROWS", "not known", "steady"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestDocuments: the targets' configurations are valid, and the hosts' block ranges do not overlap.
func TestDocuments(t *testing.T) {
	l := &lab{o: &options{dir: t.TempDir()}, spaces: spaces(), addrs: addresses{[3]byte{127, 1, 1}}}
	for i, p := range hostPlans() {
		l.hosts = append(l.hosts, &hostState{plan: p, index: i})
	}
	if err := os.Mkdir(l.path("files"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.keys(); err != nil {
		t.Fatal(err)
	}
	for _, name := range targets() {
		if _, _, err := config.Parse(name, []byte(l.document(name))); err != nil {
			t.Errorf("%v\n%s", err, l.document(name))
		}
	}
	owners := map[[2]int]string{}
	for _, h := range l.hosts {
		s, err := l.spec(h)
		if err != nil {
			t.Fatal(err)
		}
		if (s.Key != "") != (h.plan.keys > 0) || (s.CtrlKey != "") != (h.plan.keys > 1) {
			t.Errorf("%s has other keys than planned", h.plan.name)
		}
		for _, x := range s.Spaces {
			if x.First+x.Count > x.Blocks || x.Count == 0 {
				t.Errorf("%s: %+v", h.plan.name, x)
			}
			for b := x.First; b < x.First+x.Count; b++ {
				at := [2]int{int(x.Number), b}
				if o := owners[at]; o != "" {
					t.Fatalf("block %v is of %s and %s", at, o, h.plan.name)
				}
				owners[at] = h.plan.name
			}
		}
	}
}
