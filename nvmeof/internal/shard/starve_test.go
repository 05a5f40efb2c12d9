package shard

import (
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// TestSpinningShards: loops of non-blocking raw system calls, as many as the runtime has processors, delay neither
// timers nor the garbage collector. It compares medians, the best of several, since other load may delay single ones;
// delays by spinning shards would recur each time.
func TestSpinningShards(t *testing.T) {
	const lateness, collection, tries = 5 * time.Millisecond, 50 * time.Millisecond, 9
	shards := spin(t, runtime.GOMAXPROCS(0))
	timer := bestMedian(tries, lateness, func() time.Duration {
		start := time.Now()
		<-time.After(time.Millisecond)
		return time.Since(start) - time.Millisecond
	})
	if timer > lateness {
		t.Errorf("a timer of 1 ms is %v late, want at most %v", timer, lateness)
	}
	gc := bestMedian(tries, collection, func() time.Duration {
		start := time.Now()
		runtime.GC()
		return time.Since(start)
	})
	if gc > collection {
		t.Errorf("a garbage collection takes %v, want at most %v", gc, collection)
	}
	for _, s := range shards {
		var stats Stats
		for late := time.Now().Add(10 * time.Second); stats.Turns < 1000 && stats.Sleeps == 0 && time.Now().Before(late); {
			if err := s.Call(func() { stats = s.Stats() }); err != nil {
				t.Fatal(err)
			}
		}
		if stats.Turns < 1000 || stats.Sleeps != 0 {
			t.Errorf("the shard did not spin: %+v", stats)
		}
	}
	t.Logf("timer %v late, garbage collection %v", timer, gc)
}

// spin starts n shards that always poll the sockets of one device.
func spin(t *testing.T, n int) (shards []*Shard) {
	t.Helper()
	d, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr("127.84.0.3"), Shards: min(n, 64)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range shards {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for range min(n, 64) {
		cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{CQ: cq, Polling: nvmeof.PollAlways, Dedicated: true, Arena: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		shards = append(shards, s)
		s.Start()
	}
	return shards
}

func median(tries int, f func() time.Duration) time.Duration {
	var all []time.Duration
	for range tries {
		all = append(all, f())
	}
	slices.Sort(all)
	return all[tries/2]
}

// bestMedian returns the first of ten medians that is within limit, or else the last one.
func bestMedian(tries int, limit time.Duration, f func() time.Duration) (m time.Duration) {
	for range 10 {
		if m = median(tries, f); m <= limit {
			break
		}
	}
	return m
}
