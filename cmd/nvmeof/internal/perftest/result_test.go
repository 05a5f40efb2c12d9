package perftest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestBandwidth(t *testing.T) {
	// Four messages of a MiB: the first takes 3 s, the others a second each.
	b := NewBandwidth(1<<20, []int64{0, 1e9, 2e9, 3e9}, []int64{3e9, 4e9, 5e9, 6e9})
	if got := fmt.Sprintf("%.6f %.9f %.6f", b.Average, b.Rate, b.Peak); got != "0.666667 0.000000667 0.666667" {
		t.Errorf("average, rate and peak %s", got)
	}
	// The best moments are the last two messages, in half a second each.
	b = NewBandwidth(1<<20, []int64{0, 3e9, 3.5e9}, []int64{3e9, 3.5e9, 4e9})
	if b.Peak != 2 {
		t.Errorf("the peak is %v MiB/s, want 2", b.Peak)
	}
	many := make([]int64, maxPeak+1)
	if b = NewBandwidth(1, many, many); b.Peak != 0 {
		t.Errorf("a peak of %v among %d messages", b.Peak, len(many))
	}
}

// TestLatency: of 5 times the two largest are omitted, and the maximum is the smaller of them.
func TestLatency(t *testing.T) {
	posted := []int64{0, 2000, 6000, 12000, 32000, 132000} // 2, 4, 6, 20, 100 us
	l := Test{Verb: Read, Latency: true}.NewLatency(8, posted)
	want := Latency{Size: 8, Iterations: 6, Min: 2000, Max: 20000, Typical: 4000, Average: 4000, Deviation: 1632, P99: 20000, P999: 20000}
	if l != want {
		t.Errorf("%+v, want\n%+v", l, want)
	}
	if half := (Test{Verb: Send, Latency: true}).NewLatency(8, posted); half.Min != time.Microsecond || half.Max != 10*time.Microsecond {
		t.Errorf("there and back %+v", half)
	}
	if least := (Test{Latency: true}).NewLatency(8, posted[:MinIterations]); least.Max == 0 {
		t.Errorf("the least number of messages: %+v", least)
	}
}

// TestTables compares with the output of perftest's formats for the same numbers.
func TestTables(t *testing.T) {
	var b strings.Builder
	if err := (Bandwidth{65536, 1000, 612.65, 601.984, 0.009632}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	l := Latency{Size: 2, Iterations: 1000, Min: 31520, Max: 98230, Typical: 34020, Average: 35110, Deviation: 4560, P99: 52340, P999: 98230}
	if err := l.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		" #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n" +
			" 65536      1000             612.65             601.98 \t\t     0.009632\n",
		" 2       1000          31.52          98.23        34.02    \t       35.11       \t4.56   \t\t52.34   \t\t98.23  \n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no\n%q in\n%q", want, b.String())
		}
	}
}
