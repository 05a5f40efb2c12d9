package floor

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

var (
	addrA = netip.MustParseAddr("127.77.40.1")
	addrB = netip.MustParseAddr("127.77.40.2")
)

func TestRoundTrip(t *testing.T) {
	const n = 200
	r, err := RoundTrip(addrA, addrB, n, 80, 4164)
	if err != nil {
		t.Fatal(err)
	}
	if r.Count != n || r.P50 <= 0 || r.P50 > r.P99 || r.P99 > r.P999 {
		t.Errorf("%d round trips, %v", r.Count, r)
	}
	if _, err := RoundTrip(addrA, addrB, 1, 70000, 1); err == nil {
		t.Error("a request larger than a datagram was sent")
	}
}

// TestPause: a round trip after a pause must wake the other side.
func TestPause(t *testing.T) {
	start := time.Now()
	r, err := Threads{Pause: 20 * time.Millisecond}.RoundTrip(addrA, addrB, 3, 80, 4164)
	if err != nil {
		t.Fatal(err)
	}
	if r.Count != 3 || r.P50 <= 0 || time.Since(start) < 80*time.Millisecond {
		t.Errorf("%d round trips, %v, within %v", r.Count, r, time.Since(start))
	}
}

func TestPercentiles(t *testing.T) {
	var times []time.Duration
	for i := range 1000 {
		times = append(times, time.Duration(999-i))
	}
	if r := percentiles(times); r != (RoundTrips{1000, 500, 990, 999}) {
		t.Errorf("%d: %v", r.Count, r)
	}
	if r := percentiles(nil); r != (RoundTrips{}) {
		t.Errorf("of nothing: %v", r)
	}
}

func TestGoodput(t *testing.T) {
	rate, err := Goodput(addrA, addrB, 20*time.Millisecond, 4128)
	if err != nil {
		t.Fatal(err)
	}
	if rate < 1e6 {
		t.Errorf("%.0f bytes a second", rate)
	}
	if _, err := Goodput(addrA, netip.MustParseAddr("192.0.2.1"), time.Millisecond, 4128); err == nil {
		t.Error("an address that is not ours was measured")
	}
}

func TestThreads(t *testing.T) {
	refused := errors.New("refused")
	for name, threads := range map[string]Threads{
		"active":  {Active: func() error { return refused }},
		"passive": {Passive: func() error { return refused }},
	} {
		if _, err := threads.RoundTrip(addrA, addrB, 1, 80, 80); !errors.Is(err, refused) {
			t.Errorf("round trip, %s: %v", name, err)
		}
		if _, err := threads.Goodput(addrA, addrB, time.Millisecond, 4128); !errors.Is(err, refused) {
			t.Errorf("goodput, %s: %v", name, err)
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	r, err := RoundTrip(addrA, addrB, b.N, 80, 4164)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(r.P50.Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(r.P99.Nanoseconds()), "p99-ns")
}

func BenchmarkGoodput(b *testing.B) {
	for b.Loop() {
		rate, err := Goodput(addrA, addrB, 500*time.Millisecond, 4128)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(rate/1e9, "GB/s")
	}
}
