package target

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// A lobby is a waiting with dummy connections.
type lobby struct {
	t   *testing.T
	w   waiting
	now time.Time
}

func newLobby(t *testing.T) *lobby {
	l := &lobby{t: t, now: time.Unix(1e9, 0)}
	l.w.init(maxSilent, 1<<30)
	return l
}

// arrive adds connections from an address, and returns them and those that they displaced.
func (l *lobby) arrive(from string, n int, memory int64) (in, out []*queue) {
	for range n {
		q := &queue{remote: netip.AddrPortFrom(netip.MustParseAddr(from), 1)}
		out = append(out, l.w.enter(q, memory, l.now)...)
		in = append(in, q)
	}
	return in, out
}

func (l *lobby) prove(qs ...*queue) {
	for _, q := range qs {
		l.w.prove(q, true)
	}
}

func (l *lobby) leave(qs ...*queue) {
	for _, q := range qs {
		l.w.leave(q, l.now)
	}
}

// wantNone checks that none of the connections was displaced.
func (l *lobby) wantNone(what string, qs, out []*queue) {
	l.t.Helper()
	for _, q := range qs {
		if slices.Contains(out, q) {
			l.t.Errorf("%s gave way", what)
			return
		}
	}
}

// TestSilentGiveWay tests which connections are displaced.
func TestSilentGiveWay(t *testing.T) {
	const queue = 300 << 10 // bytes
	t.Run("one address", func(t *testing.T) {
		l := newLobby(t)
		honest, _ := l.arrive("192.0.2.1", 1, queue)
		flood, out := l.arrive("192.0.2.66", 10000, queue)
		l.wantNone("another address", honest, out)
		if !slices.Equal(out, flood[:10000-maxSilent/2]) {
			t.Errorf("%d gave way, want the oldest, all but %d", len(out), maxSilent/2)
		}
		if n := l.w.count(); n != maxSilent/2+1 {
			t.Errorf("%d wait", n)
		}
	})
	t.Run("an IPv6 network", func(t *testing.T) {
		l := newLobby(t)
		honest, _ := l.arrive("2001:db8:0:2::1", 1, queue)
		for i := range 5000 {
			_, out := l.arrive(fmt.Sprintf("2001:db8:0:1:%x::%x", i%7, i+1), 1, queue)
			l.wantNone("another network", honest, out)
		}
		if n := l.w.count(); n != maxSilent/2+1 {
			t.Errorf("%d wait, want the share of one address", n)
		}
	})
	t.Run("several addresses", func(t *testing.T) {
		l := newLobby(t)
		for i := range 5000 {
			l.arrive(fmt.Sprintf("192.0.2.%d", 100+i%16), 1, queue)
		}
		honest, _ := l.arrive("192.0.2.1", 8, queue)
		for i := range 5000 {
			_, out := l.arrive(fmt.Sprintf("192.0.2.%d", 100+i%16), 1, queue)
			l.wantNone("who has least", honest, out)
		}
		if n := l.w.count(); n != maxSilent {
			t.Errorf("%d wait, want %d", n, maxSilent)
		}
	})
	t.Run("many addresses", func(t *testing.T) {
		l := newLobby(t)
		from := func(i int) string { return fmt.Sprintf("198.18.%d.%d", i>>8&255, i&255) }
		for i := range 5000 {
			l.arrive(from(i), 1, queue)
		}
		honest, _ := l.arrive("192.0.2.1", 1, queue)
		for i := range maxSilent - 1 { // the oldest goes first
			_, out := l.arrive(from(i), 1, queue)
			l.wantNone("the newest", honest, out)
		}
		if n := l.w.count(); n != maxSilent {
			t.Errorf("%d wait, want %d", n, maxSilent)
		}
	})
}

// TestSilentMemory tests which connections are displaced for memory.
func TestSilentMemory(t *testing.T) {
	const queue = 300 << 10 // bytes
	t.Run("of strangers", func(t *testing.T) {
		l := newLobby(t)
		l.arrive("192.0.2.66", 200, 4<<20)
		l.arrive("192.0.2.67", 200, 4<<20)
		if used := l.w.strangers.used; used > 1<<28 || used < 1<<28-4<<20 {
			t.Errorf("strangers map %d bytes, want a quarter of all", used)
		}
	})
	t.Run("of all", func(t *testing.T) {
		l := newLobby(t)
		small, _ := l.arrive("192.0.2.1", 1, queue)
		large, _ := l.arrive("192.0.2.66", 100, queue)
		if out := l.w.relieve(netip.MustParseAddr("192.0.2.1")); !slices.Equal(out, large[:1]) {
			t.Errorf("%v gave way", out)
		}
		if out := l.w.relieve(netip.MustParseAddr("192.0.2.66")); out != nil {
			t.Errorf("%v gave way to who has most", out)
		}
		l.leave(small...)
		l.leave(large...)
		if out := l.w.relieve(netip.MustParseAddr("192.0.2.1")); out != nil || l.w.count() != 0 || l.w.strangers.used != 0 {
			t.Errorf("%v gave way, %d wait", out, l.w.count())
		}
	})
}

// TestRefusedCheaply: connections of an address beyond its limit within a second are refused before memory is
// mapped; those of others are not.
func TestRefusedCheaply(t *testing.T) {
	l := newLobby(t)
	admitted := 0
	for range 3000 { // within 3 s
		l.now = l.now.Add(time.Millisecond)
		if !l.w.refuses(netip.MustParseAddr("192.0.2.66"), l.now) {
			admitted++
			l.arrive("192.0.2.66", 1, 300<<10)
		}
		if l.w.refuses(netip.MustParseAddr("192.0.2.1"), l.now) {
			t.Fatal("another address is refused")
		}
	}
	if most := 3 * maxSilent / 2; admitted > most || admitted < most/2 {
		t.Errorf("%d were admitted, want %d", admitted, most)
	}
	if n := l.w.refused.Load(); n != uint64(3000-admitted) {
		t.Errorf("%d counted", n)
	}
}

// TestKnownHostsDoNotGiveWay: a flood does not affect hosts that are or were connected, with 128 I/O queues each
// that wait for one another, and several behind one address.
func TestKnownHostsDoNotGiveWay(t *testing.T) {
	l := newLobby(t)
	flood := func() (out []*queue) {
		for i := range 3000 {
			_, o := l.arrive(fmt.Sprintf("198.18.0.%d", i%100), 1, 1<<20)
			out = append(out, o...)
		}
		return out
	}
	flood()
	var admins []*queue
	for range 8 { // hosts
		q, _ := l.arrive("192.0.2.1", 1, 300<<10)
		admins = append(admins, q...)
		l.prove(q...)
	}
	io, out := l.arrive("192.0.2.1", 8*128, 1<<20)
	l.wantNone("an I/O queue", io, append(out, flood()...))
	l.prove(io...)
	l.leave(io...)
	l.leave(admins...)
	l.now = l.now.Add(acquainted - time.Second)
	back, out := l.arrive("192.0.2.1", 8, 300<<10)
	l.wantNone("who comes back", back, append(out, flood()...))
	l.leave(back...)
	l.now = l.now.Add(2 * time.Second)
	late, _ := l.arrive("192.0.2.1", 1, 300<<10)
	if late[0].waiter.room != &l.w.strangers {
		t.Error("the address is known for ever")
	}
}

// TestHostsComeBackInStep: after a restart 64 hosts open 128 I/O queues each, at the same pace, and send the first
// Connect when all are open. None displaces another's, since the memory for all of them is there.
func TestHostsComeBackInStep(t *testing.T) {
	const hosts, queues, memory = 64, 128, 100 << 10
	l := newLobby(t)
	from := func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }
	for i := range hosts {
		q, _ := l.arrive(from(i), 1, memory)
		l.prove(q...)
	}
	var out []*queue
	open := make([][]*queue, hosts)
	for range queues {
		for i := range hosts {
			q, o := l.arrive(from(i), 1, memory)
			open[i], out = append(open[i], q...), append(out, o...)
		}
	}
	if len(out) > 0 {
		t.Errorf("%d of %d queues gave way", len(out), hosts*queues)
	}
	for _, qs := range open {
		l.prove(qs...)
	}
}

// TestKnownHostsFlood: hosts that are or were connected, with tiny queues that send nothing, displace only their own.
func TestKnownHostsFlood(t *testing.T) {
	const memory = 16 << 10
	for _, from := range [][]string{{"192.0.2.66"}, {"2001:db8::66"}, {"192.0.2.66", "192.0.2.67", "192.0.2.68", "2001:db8::66"}} {
		l := newLobby(t)
		for _, a := range append(from, "192.0.2.1") {
			q, _ := l.arrive(a, 1, memory)
			l.prove(q...)
		}
		io, _ := l.arrive("192.0.2.1", 128, memory)
		requests := l.w.known.each
		if len(from) > 1 {
			requests = l.w.known.places
		}
		for i := range requests + 1000 {
			l.now = l.now.Add(100 * time.Microsecond)
			a := from[i%len(from)]
			if !l.w.refuses(netip.MustParseAddr(a), l.now) {
				_, out := l.arrive(a, 1, memory)
				l.wantNone("the queue of another host", io, out)
			}
		}
		if n := l.w.count(); n > l.w.known.places || len(from) == 1 && n > l.w.known.each+len(io) {
			t.Errorf("%v: %d wait", from, n)
		}
	}
}

// TestKnownAddressesAreBounded: the addresses without a connection for longest are forgotten; those with one are
// not.
func TestKnownAddressesAreBounded(t *testing.T) {
	l := newLobby(t)
	stays, _ := l.arrive("192.0.2.1", 1, 0)
	l.prove(stays...)
	for i := range maxAcquainted + 300 {
		l.now = l.now.Add(time.Millisecond)
		q, _ := l.arrive(fmt.Sprintf("10.%d.%d.1", i>>8, i&255), 1, 0)
		l.prove(q...)
		l.leave(q...)
	}
	if n := len(l.w.hosts); n > maxAcquainted+1 {
		t.Errorf("%d addresses are known", n)
	}
	if h := l.w.hosts[netip.MustParseAddr("192.0.2.1")]; h == nil || h.queues != 1 {
		t.Error("who is connected was forgotten")
	}
}

// TestDiscoveryMakesNobodyKnown: discovery is open to all.
func TestDiscoveryMakesNobodyKnown(t *testing.T) {
	f := newFixture(t)
	h := f.dial(0, 0, 32)
	d := connectData()
	d.SubNQN = nqnField(capsule.DiscoveryNQN)
	h.wantOK(connectCommand(capsule.Connect{SQSIZE: 31}, d))
	if n := len(f.target.waiting.hosts); n != 0 {
		t.Errorf("%d addresses are known", n)
	}
	f.connectAdmin(0)
	if n := len(f.target.waiting.hosts); n != 1 {
		t.Errorf("%d addresses are known, want 1", n)
	}
}

// TestGivesWay: the connection ends, unless its host has been admitted meanwhile.
func TestGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.MaxSilent = 8 })
		admin, _ := f.connectAdmin(0)
		silent := f.dial(0, 0, 32)
		f.target.giveWay([]*queue{silent.q, admin.q})
		<-silent.closed
		if n := f.target.waiting.count(); n != 0 {
			t.Errorf("%d connections wait", n)
		}
		admin.property(capsule.PropertyCAP)
		if n := f.target.AdmissionCounts(); n.GaveWay != 1 || n.Silent != 0 {
			t.Errorf("%+v", n)
		}
		f.close2(t)
	})
}
