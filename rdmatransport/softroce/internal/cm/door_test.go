package cm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

// crowd is the i-th of many addresses.
func crowd(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{100, byte(i >> 16), byte(i >> 8), byte(i)})
}

// requests sends requests of an address at a time, and returns how many were looked at.
func requests(e *Engine, now time.Duration, from netip.Addr, n int) (admitted uint64) {
	before := e.Counters.TooMany
	for range n {
		inject(e, now, from, &wire.REQ{LocalID: 1, QPN: 0x300, Service: wire.TCPService(1)}) // nobody listens there
	}
	for _, ok := e.NextSend(); ok; _, ok = e.NextSend() {
	}
	return uint64(n) - (e.Counters.TooMany - before)
}

// TestFloodIsNotLookedAt: requests beyond what one address, and all that
// are not known, may send cost nothing more, whereas those that ask for little are served.
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
		if total != eachBurst {
			t.Errorf("%d at once", total)
		}
	})
	for _, sources := range []int{254, 4000, 1 << 20} {
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
		if limit := uint64(strangersBurst + strangersRate*seconds); admitted > limit {
			t.Errorf("%d sources: %d were looked at in %d s, want at most %d", sources, admitted, seconds, limit)
		}
		if sources < strangersRate && newcomers != seconds {
			t.Errorf("%d sources: %d of %d requests of a newcomer", sources, newcomers, seconds)
		}
		if n := len(e.door.callers); n > 3*maxCallers {
			t.Errorf("%d sources: %d addresses are remembered", sources, n)
		}
		t.Logf("%d sources: %d looked at, %d of a newcomer, %d addresses remembered", sources, admitted, newcomers, len(e.door.callers))
	}
}

// TestHostsReturnTogether: hosts that behave do not meet the limits, be it one that opens
// all queues of many controllers at once, or hundreds that return after a power cut.
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
		e.door.confirmed(0, crowd(i))
	}
	for i := range 500 {
		if n := requests(e, 0, crowd(i), 8); n != 8 {
			t.Fatalf("%d of 8 I/O queues of host %d", n, i)
		}
	}
}

// TestProvenByRTU: an address is proven by an RTU alone, for as long as it has a connection,
// and an hour after that.
func TestProvenByRTU(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	e.Listen(wire.TCPService(testPort))
	proven := func(now time.Duration) bool { c := e.door.callers[addrA]; return c != nil && c.isProven(now) }
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
	if n := e.door.callers[addrA].connections; n != 1 {
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
	if n := e.door.callers[addrA].connections; n != 0 {
		t.Errorf("%d connections", n)
	}
}

// TestUnknownDREQs: messages that are answered whoever sends them have a rate.
func TestUnknownDREQs(t *testing.T) {
	e := newEngine(addrB, 2, nil)
	for i := range 10 * repliesRate {
		inject(e, 0, crowd(i), &wire.DREQ{LocalID: 1, RemoteID: wire.CommID(i)})
	}
	if n, dropped := e.Counters.UnknownDREQ, e.Counters.TooMany; n != repliesRate || dropped != 9*repliesRate {
		t.Errorf("%d answered, %d dropped", n, dropped)
	}
}
