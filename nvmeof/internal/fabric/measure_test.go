package fabric

import (
	"context"
	"flag"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/nvmeof/internal/shard"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

var measureTurns = flag.Bool("turns", false, "measure what hosts get beside each other, in processor time of the target")

// cpu returns the processor time of this thread.
func cpu() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) // which cannot fail
	return time.Duration(ts.Nano())
}

// A busyRig is a target and hosts on sockets, all run by one thread. Its clock is the processor time of the target's
// turns: as if each host had its own processor and answered at once, and independent of other load on the machine.
type busyRig struct {
	*rig
	net        byte // the last but one byte of its addresses
	dispatcher *Dispatcher
	hosts      []*busyHost
	clock      time.Duration
	turns      []time.Duration
}

// A busyHost keeps its queues full.
type busyHost struct {
	end   rigEnd
	party Party
	took  []time.Duration
	bytes int
}

func (r *busyRig) open(i int) rigEnd {
	r.t.Helper()
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	d, err := softroce.Open(softroce.Config{Addr: netip.AddrFrom4([4]byte{127, 86 + byte(i>>8), r.net, byte(i)})})
	must(err)
	cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
	must(err)
	s, err := shard.New(shard.Config{CQ: cq, Arena: 1 << 20})
	must(err)
	domain, err := d.NewDomain()
	must(err)
	return rigEnd{d, domain, s} // closed with the process
}

func newBusyRig(t *testing.T, net byte, taking bool) *busyRig {
	r := &busyRig{rig: &rig{t: t}, net: net}
	r.target = r.open(1)
	if taking {
		r.dispatcher = NewDispatcher(r.target.shard)
	}
	return r
}

func (r *busyRig) turn() {
	began := cpu()
	r.target.shard.Turn()
	took := cpu() - began
	r.clock += took
	r.turns = append(r.turns, took)
	for _, h := range r.hosts {
		h.end.shard.Turn()
	}
}

// during runs everything until f, which waits for it, has returned.
func (r *busyRig) during(f func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				r.t.Fatal(err)
			}
			return
		default:
			r.turn()
		}
	}
}

// add adds a host with a number of queues of a depth.
func (r *busyRig) add(op capsule.IOOpcode, queues, depth, size int) *busyHost {
	h := &busyHost{end: r.open(2 + len(r.hosts))}
	h.party.Open(r.target.shard)
	r.hosts = append(r.hosts, h)
	r.host = h.end
	for range queues {
		s := r.newStore(1 << 20)
		q := r.newTarget(s, TargetConfig{Depth: depth + 1, Dispatcher: r.dispatcher})
		hq, err := NewHost(HostConfig{Shard: h.end.shard, Domain: h.end.domain, Attrs: h.end.device.Attrs(), Depth: depth + 1})
		if err != nil {
			r.t.Fatal(err)
		}
		qp, err := hq.Open()
		if err != nil {
			r.t.Fatal(err)
		}
		r.connectBusy(q, hq, qp)
		q.SetParty(&h.party, true)
		m := r.hostMemory(size, false)
		for range depth {
			q := transfer(op, m, 0, size, 0)
			began := r.clock
			q.Done = func(q *Request) {
				h.took = append(h.took, r.clock-began)
				h.bytes += size
				began = r.clock
				if err := hq.Submit(q); err != nil {
					r.t.Fatal(err)
				}
			}
			if err := hq.Submit(q); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return h
}

func (r *busyRig) connectBusy(q *TargetQueue, hq *HostQueue, qp rdmatransport.QueuePair) {
	var l rdmatransport.Listener
	r.during(func() (err error) {
		l, err = r.target.device.Listen(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 86, r.net, 1}), 0))
		return err
	})
	connected := make(chan error, 1)
	go func() {
		_, err := r.host.device.Connect(context.Background(), qp, l.Addr(), rdmatransport.ConnParams{
			PrivateData: hq.RequestData(1, 1), ResponderResources: 16, RetryCount: 7, RNRRetryCount: 7,
		})
		connected <- err
	}()
	var req rdmatransport.ConnRequest
	r.during(func() (err error) {
		req, err = l.Accept(context.Background())
		return err
	})
	if err := q.Accept(req, rdmatransport.ConnParams{}); err != nil {
		r.t.Fatal(err)
	}
	r.during(func() error { return <-connected })
	hq.Established()
	r.during(l.Close)
}

// run measures for a processor time of the target, after a warm-up of a tenth of it.
func (r *busyRig) run(d time.Duration) {
	for _, part := range []time.Duration{d / 10, d} {
		for _, h := range r.hosts {
			h.took, h.bytes = nil, 0
		}
		r.turns = nil
		for until := r.clock + part; r.clock < until; {
			r.turn()
		}
	}
}

func permille(d []time.Duration, n int) time.Duration {
	slices.Sort(d)
	return d[len(d)*n/1000].Round(time.Microsecond)
}

// TestMeasureTurns measures over sockets what a host with one command at a time gets beside one with many, and how
// equal hosts are, both in the order of arrival and with turns. Latencies are the processor time of the target's thread
// until the host has its response, and rates are per second of that.
func TestMeasureTurns(t *testing.T) {
	if !*measureTurns {
		t.Skip("a measurement: -turns")
	}
	runtime.LockOSThread()
	net := byte(0)
	order := map[bool]string{false: "as they arrive", true: "in turns"}
	for _, op := range []capsule.IOOpcode{capsule.IORead, capsule.IOWrite} {
		for _, c := range []struct{ queues, size int }{{0, 4 << 10}, {1, 4 << 10}, {8, 4 << 10}, {1, 128 << 10}, {8, 128 << 10}} {
			for _, taking := range []bool{false, true} {
				net++
				r := newBusyRig(t, net, taking)
				one, other := r.add(op, 1, 1, 4<<10), &busyHost{}
				if c.queues > 0 {
					other = r.add(op, c.queues, 127, c.size)
				}
				r.run(time.Second)
				t.Logf("%v, QD 1 beside %d x QD 127 of %3d KiB, %-14s: p50 %7v p99 %7v %6d a second; others %7d a second; a turn p50 %5v p99 %5v", op,
					c.queues, c.size>>10, order[taking], permille(one.took, 500), permille(one.took, 990), len(one.took), len(other.took), permille(r.turns, 500), permille(r.turns, 990))
			}
		}
	}
	for _, hosts := range []int{2, 16, 256} {
		for _, taking := range []bool{false, true} {
			net++
			r := newBusyRig(t, net, taking)
			for i := range hosts {
				r.add(capsule.IORead, 1+i%2, []int{127, 64, 32, 96}[i%4], 4<<10)
			}
			r.run(time.Duration(max(2, hosts/32)) * time.Second)
			sum, squares := 0.0, 0.0
			for _, h := range r.hosts {
				sum += float64(h.bytes)
				squares += float64(h.bytes) * float64(h.bytes)
			}
			t.Logf("%d hosts of unlike queues and depths, %-14s: Jain %.3f, %.0f MB in all", hosts, order[taking], sum*sum/squares/float64(hosts), sum/1e6)
		}
	}
}
