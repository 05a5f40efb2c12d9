package cm

import (
	"flag"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

var long = flag.Bool("long", false, "all sites that return, and larger floods")

// choose returns the first number, and with -long the second.
func choose(quick, whole int) int {
	if *long {
		return whole
	}
	return quick
}

// crowd is the i-th of many addresses.
func crowd(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{100, byte(i >> 16), byte(i >> 8), byte(i)})
}

// requests sends n requests from an address at one time, and returns how many were admitted.
func requests(e *Engine, now time.Duration, from netip.Addr, n int) (admitted uint64) {
	before := e.Counters.TooMany
	for range n {
		inject(e, now, from, &wire.REQ{LocalID: 1, QPN: 0x300, Service: wire.TCPService(1)}) // no listener
	}
	for _, ok := e.NextSend(); ok; _, ok = e.NextSend() {
	}
	return uint64(n) - (e.Counters.TooMany - before)
}

// TestFloodIsNotLookedAt: requests over the limit of one address, or of all unproven ones, cost nothing more, while
// addresses that ask for little are served.
func TestFloodIsNotLookedAt(t *testing.T) {
	newcomer := netip.MustParseAddr("192.0.2.77")
	t.Run("one address", func(t *testing.T) {
		e := newEngine(addrB, 2, nil)
		if n := requests(e, 0, crowd(1), 5000); n != eachBurst {
			t.Errorf("%d at once", n)
		}
		if n := requests(e, time.Second, crowd(1), 5000); n != eachRate {
			t.Errorf("%d a second later", n)
		}
		if n := requests(e, time.Second, newcomer, 100); n != 100 {
			t.Errorf("%d of 100 requests of another address", n)
		}
	})
	t.Run("an IPv6 network", func(t *testing.T) {
		e := newEngine(netip.MustParseAddr("2001:db8::1"), 2, nil)
		total := uint64(0)
		for i := range 5000 {
			a := netip.MustParseAddr("2001:db8:0:6::").As16()
			a[8], a[15] = byte(i), byte(i>>8)
			total += requests(e, 0, netip.AddrFrom16(a), 1)
		}
		if total > unprovenBurst/4*3 {
			t.Errorf("%d at once", total)
		}
		if n := requests(e, 0, netip.MustParseAddr("2001:db8:0:7::1"), 1); n != 1 {
			t.Errorf("%d of a request from another network", n)
		}
	})
	for _, sources := range []int{254, 4000, 1 << 20} {
		if sources == 4000 && !*long {
			continue
		}
		e := newEngine(addrB, 2, nil)
		host := establish(t, e)
		inject(e, 0, addrA, &wire.RTU{LocalID: e.lookup(host).remoteID, RemoteID: host})
		const seconds, perMilli = 10, 16
		admitted, newcomers := uint64(0), uint64(0)
		for i := range seconds * 1000 * perMilli {
			now := time.Duration(i/perMilli) * time.Millisecond
			admitted += requests(e, now, crowd(i%sources), 1)
			if i%(1000*perMilli) == 999*perMilli { // once a second
				newcomers += requests(e, now, newcomer, 1)
				if n := requests(e, now, addrA, 100); n != 100 {
					t.Errorf("%d of 100 requests of a host that is connected", n)
				}
			}
		}
		if limit := uint64(unprovenBurst + unprovenRate*seconds); admitted > limit {
			t.Errorf("%d sources: %d were looked at in %d s, want at most %d", sources, admitted, seconds, limit)
		}
		if sources < unprovenRate && newcomers != seconds {
			t.Errorf("%d sources: %d of %d requests of a newcomer", sources, newcomers, seconds)
		}
		if n := len(e.limiter.sources); n > 3*maxSources {
			t.Errorf("%d sources: %d addresses are remembered", sources, n)
		}
		t.Logf("%d sources: %d looked at, %d of a newcomer, %d addresses remembered", sources, admitted, newcomers, len(e.limiter.sources))
	}
}

// TestHostsReturnTogether: well-behaved hosts stay below the limits, whether one opens all queues of many controllers
// at once, or hundreds return after a power failure.
func TestHostsReturnTogether(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	if n := requests(e, 0, addrA, 8*129); n < eachBurst {
		t.Errorf("%d of one host's", n)
	}
	e = newEngine(addrB, 2, nil)
	for i := range 1000 {
		if n := requests(e, 0, crowd(i), 2); n != 2 {
			t.Fatalf("%d of 2 admin queues of host %d", n, i)
		}
		e.limiter.confirmed(0, crowd(i))
	}
	for i := range 500 {
		if n := requests(e, 0, crowd(i), 8); n != 8 {
			t.Fatalf("%d of 8 I/O queues of host %d", n, i)
		}
	}
}

// TestProvenByRTU: an address is proven only by an RTU, for as long as it has a connection and an hour after that.
func TestProvenByRTU(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	e.Listen(wire.TCPService(testPort))
	proven := func(now time.Duration) bool { c := e.limiter.sources[addrA]; return c != nil && c.isProven(now) }
	connect := func(id wire.CommID) *conn {
		r := goodREQ(id)
		r.QPN = rdmatransport.QPN(0x300 + id)
		inject(e, 0, addrA, &r)
		ev, _ := e.NextEvent()
		if err := e.Accept(0, ev.ID, acceptParams()); err != nil {
			t.Fatal(err)
		}
		return e.lookup(ev.ID)
	}
	c := connect(21)
	e.Established(0, c.id)
	if c.state != established || proven(0) {
		t.Errorf("%v by data: proven %v", c.state, proven(0))
	}
	for range 2 {
		inject(e, 0, addrA, &wire.RTU{LocalID: 21, RemoteID: c.id})
	}
	if n := e.limiter.sources[addrA].connections; n != 1 {
		t.Errorf("%d connections", n)
	}
	const day = 24 * time.Hour
	if !proven(day) {
		t.Error("not proven though it has a connection")
	}
	inject(e, day, addrA, &wire.DREQ{LocalID: 21, RemoteID: c.id, RemoteQPN: c.qpn})
	if !proven(day+remembered/2) || proven(day+remembered) {
		t.Error("not forgotten after an hour")
	}
	if n := e.limiter.sources[addrA].connections; n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestUnknownDREQs: the rate of answers to unknown senders is limited.
func TestUnknownDREQs(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	for second := range 2 {
		for i := range 2 * repliesBurst {
			inject(e, time.Duration(second)*time.Second, crowd(i), &wire.DREQ{LocalID: 1, RemoteID: wire.CommID(i)})
		}
		want := uint64(repliesBurst + second*repliesRate)
		if n, dropped := e.Counters.UnknownDREQ, e.Counters.TooMany; n != want || n+dropped != uint64(2*(second+1)*repliesBurst) {
			t.Errorf("%d answered, %d dropped", n, dropped)
		}
	}
}

// neighbour is the i-th address of an IPv6 network.
func neighbour(i int) netip.Addr {
	a := netip.MustParseAddr("2001:db8:0:6::").As16()
	a[13], a[14], a[15] = byte(i>>16), byte(i>>8), byte(i)
	return netip.AddrFrom16(a)
}

// TestNeighbours: hosts of one IPv6 network, such as those of a site, are served while a neighbour sends as much as
// it can from one address, whether or not they are proven.
func TestNeighbours(t *testing.T) {
	const hosts, seconds = 64, 10
	for _, known := range []bool{false, true} {
		e := newEngine(netip.MustParseAddr("2001:db8::1"), 2, nil)
		for i := range hosts {
			if known {
				e.limiter.confirmed(0, neighbour(i))
			}
		}
		served := uint64(0)
		for milli := range seconds * 1000 {
			now := time.Duration(milli) * time.Millisecond
			requests(e, now, neighbour(1000), 16)
			if milli%1000 == 999 {
				for i := range hosts {
					served += requests(e, now, neighbour(i), 1)
				}
			}
		}
		if served != hosts*seconds {
			t.Errorf("known %v: %d of %d requests of hosts beside their neighbour", known, served, hosts*seconds)
		}
	}
}

// A site is a set of hosts whose controllers connect all their queues, one queue after the other per controller, to a
// target that serves a given number of requests per second.
type site struct {
	host                       func(int) netip.Addr
	hosts, controllers, queues int
	pace                       int
	target                     netip.Addr
}

// connect returns how long that takes if a dropped request is repeated after 4.3 s, as by Linux.
func (s *site) connect(t *testing.T) (until time.Duration, dropped uint64) {
	const again = 4300 * time.Millisecond
	e := newEngine(s.target, 2, nil)
	type controller struct {
		host int
		left int
		next time.Duration
	}
	var all []*controller
	for i := range s.hosts * s.controllers {
		all = append(all, &controller{host: i % s.hosts, left: s.queues})
	}
	busy := time.Duration(0)
	for len(all) > 0 {
		next := all[0]
		for _, c := range all {
			if c.next < next.next {
				next = c
			}
		}
		now := next.next
		if requests(e, now, s.host(next.host), 1) == 0 {
			next.next += again
			dropped++
			continue
		}
		busy = max(busy, now) + time.Second/time.Duration(s.pace)
		next.next = busy
		e.limiter.confirmed(busy, s.host(next.host))
		if next.left--; next.left == 0 {
			all = slices.DeleteFunc(all, func(c *controller) bool { return c == next })
		}
	}
	return busy, dropped
}

// TestSiteReturns: after a restart of the target, when no address is proven, 64 hosts connect 128 I/O queues each,
// with one controller and with four, over IPv4 and from one IPv6 network. The quick form uses four over IPv4 and one
// over IPv6.
func TestSiteReturns(t *testing.T) {
	for _, family := range []struct {
		name   string
		host   func(int) netip.Addr
		target netip.Addr
	}{{"IPv4", crowd, addrB}, {"IPv6", neighbour, netip.MustParseAddr("2001:db8::1")}} {
		for _, controllers := range []int{1, 4} {
			if !*long && (controllers == 1) != (family.name == "IPv6") {
				continue
			}
			for _, pace := range []int{2000, 4000, 10000} {
				s := site{host: family.host, hosts: 64, controllers: controllers, queues: 129, pace: pace, target: family.target}
				took, dropped := s.connect(t)
				alone := time.Second * time.Duration(64*controllers*129) / time.Duration(pace)
				if pace <= provenRate && dropped > 0 || took > alone+15*time.Second {
					t.Errorf("%d requests are dropped", dropped)
				}
				t.Logf("%s, %d controllers a host, %d requests a second: %v, not %v; %d dropped", family.name, controllers, pace, took, alone, dropped)
			}
		}
	}
}

// TestHostsAwayAreRemembered: hosts that were connected recently stay proven, whatever unproven addresses or a
// network with many addresses send, and the number of remembered addresses is limited.
func TestHostsAwayAreRemembered(t *testing.T) {
	const hosts = 1000
	for _, proven := range []bool{false, true} {
		e := newEngine(netip.MustParseAddr("2001:db8::1"), 2, nil)
		away := func(now time.Duration, a netip.Addr) {
			e.limiter.confirmed(now, a)
			e.limiter.ended(now, &conn{peer: a, proven: true})
		}
		host := func(i int) netip.Addr {
			a := neighbour(i).As16()
			a[6], a[7] = 1, byte(i%8)
			return netip.AddrFrom16(a)
		}
		for i := range hosts {
			away(0, host(i))
		}
		for i := range 20000 {
			now := time.Minute
			if proven {
				away(now+time.Duration(i)*time.Millisecond/2, neighbour(i))
			} else {
				a := neighbour(i).As16()
				a[5] = byte(i) // of many networks
				requests(e, now, netip.AddrFrom16(a), 1)
			}
		}
		known := 0
		for i := range hosts {
			if c := e.limiter.sources[host(i)]; c != nil && c.isProven(2*time.Minute) {
				known++
			}
		}
		if n := len(e.limiter.sources); known != hosts || n > 3*maxSources || len(e.limiter.networks) > n {
			t.Errorf("proven %v: %d of %d are known, of %d addresses and %d networks", proven, known, hosts, n, len(e.limiter.networks))
		}
	}
}
