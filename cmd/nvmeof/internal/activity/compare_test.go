package activity

import (
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/control"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// ten returns bounds of 10, 20 and so on to 100 microseconds.
func ten() (b []int64) {
	for i := range 10 {
		b = append(b, int64(i+1)*10000)
	}
	return b
}

func histogram(sum time.Duration, buckets ...[2]uint64) control.Latencies {
	return control.Latencies{SumNS: int64(sum), Buckets: buckets}
}

// reading returns the reading of a target at a time after its start. Between two readings two seconds apart, 200 Reads
// and 100 Writes of namespace 1 were executed, and one Write failed.
func reading(at time.Duration) *control.Measures {
	n := uint64(at / (2 * time.Second))
	started := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	reads := histogram(time.Duration(n)*200*15*time.Microsecond, [2]uint64{1, 198 * n}, [2]uint64{9, n}, [2]uint64{10, n})
	return &control.Measures{PID: 7, Started: started, UptimeNS: int64(at), Listeners: 1, Subsystems: 1, BoundsNS: ten(),
		Namespaces: []control.NamespaceMeasures{
			{Subsystem: "s", NSID: 1, Kind: "file", Export: "/a", Ready: true, InFlight: 3, ReadBytes: n * 2e6, WrittenBytes: n * 4e6, Errors: n, Commands: []control.CommandMeasures{
				{Op: "read", Command: reads, Store: histogram(time.Duration(n)*time.Millisecond, [2]uint64{0, 200 * n})},
				{Op: "write", Command: histogram(time.Duration(n)*100*25*time.Microsecond, [2]uint64{2, 100 * n})},
			}},
			{Subsystem: "s", NSID: 2},
		},
		Controllers: []control.Controller{
			{Subsystem: "s", ID: 1, Host: "h", HostID: "01", Peer: "127.0.0.2", Connected: started.Add(time.Second), Queues: []control.Queue{
				{ID: 1, Depth: 32, Shard: 0, InFlight: 2, Commands: n * 200, ReadBytes: n * 2e6}, {ID: 2, Depth: 16, Shard: 1, InFlight: 1, Commands: n * 100, WrittenBytes: n * 4e6}}},
			{Subsystem: "s", ID: 2, Host: "h", HostID: "01", Peer: "127.0.0.3", Connected: started},
			{Subsystem: "d", ID: 1, Discovery: true, Host: "g", HostID: "02", Peer: "127.0.0.4", Connected: started},
		},
		Shards: []control.ShardMeasures{
			{Shard: 0, BusyNS: int64(n) * 1e9, Turns: histogram(time.Duration(n)*time.Millisecond, [2]uint64{0, 50 * n}), ToHosts: histogram(time.Duration(n)*time.Millisecond, [2]uint64{4, 200 * n})},
			{Shard: 1, BusyNS: int64(n) * 5e8, FromHosts: histogram(time.Duration(n)*time.Millisecond, [2]uint64{5, 100 * n})},
		},
		Devices: []control.DeviceMeasures{{Device: "127.0.0.1", Counters: []rdmatransport.Counter{{Name: "packets_in", N: n * 600}, {Name: "drop_crc", N: n * 2}, {Name: "drop_old", N: n * 4}}}},
	}
}

func TestCompare(t *testing.T) {
	r := Compare(reading(10*time.Second), reading(12*time.Second))
	if r.Seconds != 2 || r.SinceStart || r.Uptime != 12 || len(r.Namespaces) != 2 || r.Total.NotReady != 1 {
		t.Errorf("report %+v", r)
	}
	n := &r.Namespaces[0]
	if want := (Rates{150, 1e6, 2e6}); n.Rates != want || n.Errors != 0.5 || n.InFlight != 3 || len(n.Commands) != 2 || n.Commands[0].IOPS != 100 {
		t.Errorf("namespace %+v", n)
	}
	us := func(n float64) time.Duration { return time.Duration(n * 1000) }
	for _, c := range []struct {
		what     string
		got      Latency
		count    uint64
		p50, p99 time.Duration
	}{
		{"reads", n.Commands[0].Command, 200, us(10 + 10*100.0/198), us(20)},
		{"writes", n.Commands[1].Command, 100, us(25), us(29.9)},
		{"commands", n.Command, 300, us(10 + 10*150.0/198), us(20 + 10*(297-198)/100.0)},
		{"store", n.Store, 200, us(5), us(9.9)},
		{"all", r.Total.Command, 300, us(10 + 10*150.0/198), us(20 + 10*(297-198)/100.0)},
		{"from hosts", r.Total.FromHosts, 100, us(55), us(59.9)},
		{"to hosts", r.Shards[0].ToHosts, 200, us(45), us(49.9)},
		{"nothing", r.Namespaces[1].Command, 0, 0, 0},
	} {
		if d50, d99 := c.got.P50-c.p50, c.got.P99-c.p99; c.got.Count != c.count || d50.Abs() > 2 || d99.Abs() > 2 {
			t.Errorf("%s: %+v, want %d, %v, %v", c.what, c.got, c.count, c.p50, c.p99)
		}
	}
	if r.Total.Busy != 0.75 || r.Shards[0].Busy != 0.5 || r.Shards[1].IOPS != 50 || r.Shards[0].Queues != 1 || r.Shards[0].Turns != 25 {
		t.Errorf("shards %+v", r.Shards)
	}
	if len(r.Hosts) != 2 || r.Hosts[1].Host != "h" || r.Hosts[1].Controllers != 2 || r.Hosts[1].Queues != 2 || r.Hosts[1].IOPS != 150 || len(r.Hosts[1].Peers) != 2 {
		t.Errorf("hosts %+v", r.Hosts)
	}
	if c := r.Controllers[0]; c.Age != 11 || c.InFlight != 3 || c.Depth != 32 || c.ReadBytes != 1e6 || c.WrittenBytes != 2e6 {
		t.Errorf("controller %+v", c)
	}
	if r.Counted("drop_") != 3 || r.Transport[0].Total != 3600 || r.Transport[0].Rate != 300 {
		t.Errorf("transport %+v", r.Transport)
	}
}

// TestCompareBegins checks that objects without an earlier reading count from their beginning.
func TestCompareBegins(t *testing.T) {
	now := reading(10 * time.Second)
	other := reading(8 * time.Second)
	other.Started = other.Started.Add(-time.Hour)
	for what, before := range map[string]*control.Measures{"none": nil, "another target": other, "the same": now} {
		if r := Compare(before, now); !r.SinceStart || r.Seconds != 10 || r.Total.IOPS != 150 {
			t.Errorf("%s: %+v", what, r)
		}
	}
	before := reading(8 * time.Second)
	before.Namespaces, before.Controllers, before.Devices = nil, nil, nil
	if r := Compare(before, now); r.SinceStart || r.Total.IOPS != 5*150 || r.Controllers[0].IOPS != 5*150 {
		t.Errorf("a namespace that was added: %+v", r.Total)
	}
	before = reading(8 * time.Second) // queue and namespace have been created again
	before.Controllers[0].Queues[0].Commands = 1 << 40
	before.Namespaces[0].ReadBytes = 1 << 40
	before.Namespaces[0].Commands[0].Command.Buckets[0][1] = 1 << 40
	if r := Compare(before, now); r.Controllers[0].IOPS != 500+50 || r.Namespaces[0].ReadBytes != 5e6 || r.Namespaces[0].Commands[0].IOPS != 500 {
		t.Errorf("counters that began again: %+v, %+v", r.Controllers[0], r.Namespaces[0])
	}
}

// TestQuantile checks the extreme quantiles, and inconsistent counters.
func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		b    bounds
		h    control.Latencies
		q    float64
		want time.Duration
	}{
		{ten(), histogram(0, [2]uint64{0, 10}), 0, 0},
		{ten(), histogram(0, [2]uint64{0, 10}), 1, 10 * time.Microsecond},
		{ten(), histogram(0, [2]uint64{10, 10}), 0.5, 100 * time.Microsecond},
		{ten(), histogram(0, [2]uint64{1 << 60, 10}), 0.5, 100 * time.Microsecond},
		{nil, histogram(0, [2]uint64{3, 10}), 0.5, 0},
		{ten(), histogram(0), 0.5, 0},
	} {
		if got := c.b.quantile(c.h, count(c.h), c.q); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.q, c.h, got, c.want)
		}
	}
}

// TestHistogram checks the distribution between two readings over all kinds of commands.
func TestHistogram(t *testing.T) {
	want := [][2]uint64{{20000, 198}, {30000, 100}, {100000, 2}}
	var sum []uint64
	for _, b := range Histogram(reading(10*time.Second), reading(12*time.Second), "s", 1) {
		sum = append(sum, b[0], b[1])
	}
	if len(sum) < 4 || sum[0] != want[0][0] || sum[1] != want[0][1] || sum[2] != want[1][0] || sum[3] != want[1][1] {
		t.Errorf("%v, want %v", sum, want)
	}
	if h := Histogram(nil, reading(2*time.Second), "s", 1); len(h) == 0 || Histogram(nil, reading(2*time.Second), "s", 9) != nil {
		t.Error(h)
	}
}
