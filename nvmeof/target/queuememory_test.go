package target

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce"
)

// hoard takes as many queues of n bytes as an address gets.
func hoard(m *queueMemory, from string, n int64, known bool) (qs []*mapping) {
	for {
		q := &mapping{}
		if m.take(q, netip.MustParseAddr(from), n, known) != "" {
			return qs
		}
		qs = append(qs, q)
	}
}

// arriveWithMemory adds a connection as the target does; connections that it displaces free their memory.
func arriveWithMemory(l *lobby, m *queueMemory, from string, n int64) (q *queue, why string) {
	addr := netip.MustParseAddr(from)
	if l.w.refuses(addr, l.now) {
		return nil, "too many wait"
	}
	q = &queue{remote: netip.AddrPortFrom(addr, 1)}
	if why := m.take(&q.mapping, addr, n, l.w.knows(addr, l.now)); why != "" {
		return nil, why
	}
	for _, out := range l.w.enter(q, n, l.now) {
		m.give(&out.mapping)
		l.leave(out)
	}
	return q, ""
}

// TestQueueMemoryIsShared tests the limits, with queues of a thousandth of the memory.
func TestQueueMemoryIsShared(t *testing.T) {
	const queue, all = 1 << 20, 1000
	addr := func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }
	var m queueMemory
	m.init(all * queue)
	var qs []*mapping
	left := all
	for i := range 4 {
		got := hoard(&m, addr(i), queue, true)
		qs = append(qs, got...)
		if before := left; len(got) > (before+1)/2 || i > 0 && len(got) == 0 {
			t.Errorf("hoarder %d has %d of the %d that were left", i, len(got), before)
		}
		left -= len(got)
	}
	if got := hoard(&m, "2001:db8:0:1::1", queue, false); len(got) == 0 || len(hoard(&m, "2001:db8:0:1::2", queue, false)) > 0 {
		t.Errorf("a stranger gets %d, and its neighbour some too", len(got))
	}
	for i := range 3 {
		if n := len(hoard(&m, addr(100+i), queue, true)); n < all/returningEach {
			t.Errorf("returning host %d gets %d", i, n)
		}
	}

	host := &mapping{}
	if why := m.take(host, netip.MustParseAddr(addr(110)), queue, true); why != "" {
		t.Fatal(why)
	}
	if why := m.own(host, testHostNQN); why != "" {
		t.Errorf("a host that authenticates: %v", why)
	}
	if m.by[account{of: partyName{host: testHostNQN}}] != queue || m.own(host, testHostNQN) != "" {
		t.Error("it does not count for the host")
	}
	before := m.refused.Load()
	if why := m.own(qs[0], testHostNQN); why != "" { // it has a queue, and there is room for a few
		t.Error(why)
	}
	for _, q := range qs[1:] {
		m.own(q, testHostNQN)
	}
	if n := m.by[account{of: partyName{host: testHostNQN}}] / queue; n > all/2 || m.refused.Load() == before {
		t.Errorf("a host that connects from several addresses has %d", n)
	}
	for _, q := range qs {
		m.give(q)
	}
	m.give(host)
	if n := len(hoard(&m, addr(200), queue, false)); n < all*3/10 {
		t.Errorf("when those have gone one gets %d", n)
	}
}

// TestSilentNeighbours: connections that send nothing, from ever new addresses of the IPv6 network of hosts, take
// neither the hosts' memory nor the places of those that connect.
func TestSilentNeighbours(t *testing.T) {
	const bytes, all = 1 << 20, 1 << 30
	l := newLobby(t)
	var m queueMemory
	m.init(all)
	come := func(from string) (q *queue, why string) { return arriveWithMemory(l, &m, from, bytes) }
	host, _ := come("2001:db8::10")
	l.prove(host)
	m.admit(&host.mapping)
	for i := range 5000 { // 500 a second
		l.now = l.now.Add(2 * time.Millisecond)
		_, _ = come(fmt.Sprintf("2001:db8::66:%x", i%3))
		_, _ = come(fmt.Sprintf("2001:db8::77:%x", i))
		if i%50 > 0 {
			continue
		}
		for _, from := range []string{"2001:db8::10", fmt.Sprintf("2001:db8::1:%x", i)} {
			q, why := come(from)
			if why != "" {
				t.Fatalf("%s after %d: %s", from, i, why)
			}
			l.prove(q)
			m.admit(&q.mapping)
			m.give(&q.mapping)
			l.leave(q)
		}
	}
}

// TestOneHostTakesQueueMemory: a host that connects queues until it is refused leaves as much to a later one, and
// gets a remedy. That queues share receives changes little: each has contexts of its own.
func TestOneHostTakesQueueMemory(t *testing.T) {
	for _, shared := range []int{0, 64} {
		t.Run(fmt.Sprintf("%d shared receives", shared), func(t *testing.T) { takeQueueMemory(t, shared) })
	}
}

func takeQueueMemory(t *testing.T, shared int) {
	const most = 32 // of half a megabyte or more
	n := softroce.NewNetwork(1)
	open := func(a string) rdmatransport.Device {
		d, err := softroce.Open(softroce.Config{Addr: netip.MustParseAddr(a), Shards: 2, Network: n})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	r := newRemote(t, func(*testing.T) (target, host rdmatransport.Device) {
		return open(targetAddr.String()), open(hostAddr.String())
	}, func(c *Config) { c.QueueMemory, c.SharedReceives = 16<<20, shared })
	_, held := r.controller(0)
	id := r.target.Controllers()[0].ID
	for len(held) <= most {
		q, err := r.tryDial(capsule.QID(len(held)+1), 128)
		if err != nil {
			break
		}
		q.connect(capsule.QID(len(held)+1), id, 128)
		held = append(held, q)
	}
	if len(held) < 4 || len(held) > most {
		t.Errorf("a host alone has %d queues", len(held))
	}
	if got := r.target.AdmissionCounts(); got.Memory != 1 {
		t.Errorf("%+v", got)
	}
	lines := r.logs.FilterMessage("connection rejected").All()
	if len(lines) != 1 || !strings.Contains(fmt.Sprint(lines[0].ContextMap()["reason"]), "nr-io-queues") {
		t.Errorf("logged %v", lines)
	}

	other := &remote{t: t, target: r.target, sub: r.sub, store: r.store, addr: r.addr, device: open("192.0.2.77")}
	other.openHost(func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	_, io := other.controller(len(held) / 3)
	for _, q := range io {
		q.do(rwCommand(capsule.IORead, 0, 1), 0, 4096)
	}
	for _, q := range other.queues {
		q.close()
	}
	if err := errors.Join(other.memory.Close(), other.domain.Close(), other.shard.Close(), other.device.Close()); err != nil {
		t.Error(err)
	}
	r.close()
}
