package decide

import (
	"fmt"
	"testing"
)

// TestChoose: successive choices. Candidates are written as class, requests in flight and latency.
func TestChoose(t *testing.T) {
	o := func(inFlight, latency int64) Candidate { return Candidate{Optimized, inFlight, latency, 0} }
	n := func(inFlight, latency int64) Candidate { return Candidate{NonOptimized, inFlight, latency, 0} }
	at := func(class Class, distance int) Candidate { return Candidate{Class: class, Distance: distance} }
	x := Candidate{}
	tests := []struct {
		policy Policy
		last   int
		cs     []Candidate
		want   string
	}{
		{NUMA, -1, nil, "-1"},
		{NUMA, -1, []Candidate{x, x}, "-1"},
		{NUMA, -1, []Candidate{x, o(0, 0), o(0, 0)}, "1 1 1"},
		{NUMA, 2, []Candidate{o(0, 0), o(0, 0), o(0, 0)}, "2 2"}, // sticky
		{NUMA, 2, []Candidate{o(0, 0), o(0, 0), n(0, 0)}, "0 0"}, // failback
		{NUMA, 1, []Candidate{n(0, 0), n(0, 0), x}, "1 1"},       // no better one
		{NUMA, 7, []Candidate{x, o(0, 0)}, "1 1"},                // paths went
		{NUMA, -1, []Candidate{at(Optimized, 21), at(Optimized, 10), at(Optimized, 10)}, "1 1"},
		{NUMA, 2, []Candidate{at(Optimized, 21), at(Optimized, 10), at(Optimized, 10)}, "2 2"}, // of equals it stays with one
		{NUMA, 0, []Candidate{at(Optimized, 21), at(Optimized, 10)}, "1"},                      // the processor is another
		{NUMA, 1, []Candidate{at(Optimized, 21), at(NonOptimized, 10), at(Unusable, 10)}, "0"}, // optimized ones come first
		{NUMA, 0, []Candidate{at(Unusable, 10), at(Optimized, 31), at(Optimized, 21)}, "2"},    // the near one is gone
		{RoundRobin, 0, []Candidate{at(Optimized, 10), at(Optimized, 21), x}, "1 0"},           // others do not look at it
		{RoundRobin, -1, []Candidate{o(0, 0), o(0, 0)}, "0 1 0 1"},                             //
		{RoundRobin, 0, []Candidate{o(0, 0), n(0, 0), x}, "0 0"},                               // optimized only
		{RoundRobin, 0, []Candidate{x, n(0, 0), x, n(0, 0)}, "1 3 1"},                          //
		{QueueDepth, -1, []Candidate{o(5, 0), o(3, 0), n(0, 0)}, "1"},                          //
		{QueueDepth, -1, []Candidate{o(5, 0), o(5, 0)}, "0 1 0"},                               // of equals in turn
		{Latency, -1, []Candidate{o(0, 900), o(0, 300)}, "1 1"},                                //
		{Latency, -1, []Candidate{o(0, 900), o(4, 300)}, "0"},                                  // by what waits there
		{Latency, -1, []Candidate{o(0, 900), o(4, 0), n(0, 1)}, "1 1"},                         // not measured yet
	}
	for _, tt := range tests {
		at := Cursor{Last: tt.last}
		for i, want := range fields(tt.want) {
			if got := fmt.Sprint(Choose(tt.policy, tt.cs, &at)); got != want {
				t.Errorf("%v of %v behind %d: choice %d is %s, want %s", tt.policy, tt.cs, tt.last, i, got, want)
			}
		}
	}
}

func fields(s string) (all []string) {
	for len(s) > 0 {
		var f string
		if n, _ := fmt.Sscan(s, &f); n == 0 {
			break
		}
		all = append(all, f)
		s = s[min(len(s), len(f)+1):]
	}
	return all
}

// TestLatencyLooksAgain: a path that was slow gets a request occasionally.
func TestLatencyLooksAgain(t *testing.T) {
	cs := []Candidate{{Optimized, 0, 100, 0}, {Optimized, 0, 1e9, 0}}
	var at Cursor
	count := [2]int{}
	for range 10 * refresh {
		count[Choose(Latency, cs, &at)]++
	}
	if count[1] != 10 {
		t.Errorf("the slow path got %d of %d requests", count[1], 10*refresh)
	}
}

func TestPolicyNames(t *testing.T) {
	for _, name := range Policies() {
		p, err := ParsePolicy(name)
		if err != nil || p.String() != name {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if _, err := ParsePolicy("fastest"); err == nil || Policy(9).String() != "policy 9" {
		t.Error("unknown policies pass")
	}
}

func TestSmooth(t *testing.T) {
	for _, tt := range []struct{ old, sample, want int64 }{{0, 800, 800}, {800, 1600, 900}, {800, 0, 700}, {1, 0, 1}, {0, 0, 1}} {
		if got := Smooth(tt.old, tt.sample); got != tt.want {
			t.Errorf("%d and %d: %d, want %d", tt.old, tt.sample, got, tt.want)
		}
	}
}
