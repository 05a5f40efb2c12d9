package udp

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// pair is two endpoints of a network under a manual clock.
type pair struct {
	*Network
	t    *testing.T
	a, b Group
}

func newPair(t *testing.T, seed uint64, change func(*Network)) *pair {
	t.Helper()
	n := NewNetwork(seed)
	n.Manual = true
	n.PathMTU = 4200
	if change != nil {
		change(n)
	}
	p := &pair{Network: n, t: t}
	for i, g := range []*Group{&p.a, &p.b} {
		var err error
		if *g, err = Join(n, netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 1); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// faulty applies f to packets sent from 192.0.2.1.
func faulty(f Faults) func(*Network) {
	return func(n *Network) {
		n.Faults = func(from, to netip.Addr) Faults {
			if from.As4()[3] == 1 {
				return f
			}
			return Faults{}
		}
	}
}

// send sends numbered packets one by one.
func (p *pair) send(from, to Group, count int) {
	p.t.Helper()
	for i := range count {
		wantSent(p.t, from.Ports()[0], []Message{{To: netip.AddrPortFrom(to.Addr(), roce), TOS: 2, Pieces: [][]byte{numbered(i)}}}, 1)
	}
}

func numbered(i int) []byte {
	b := packet(2, 64)
	b[8], b[9] = byte(i>>8), byte(i)
	return b
}

// arrived returns the numbers of the packets that b can receive now.
func (p *pair) arrived() (numbers []int) {
	p.t.Helper()
	batch := p.b.Ports()[0].NewBatch()
	for n := 1; n > 0; {
		var err error
		if n, err = p.b.Ports()[0].Recv(batch); err != nil {
			p.t.Fatal(err)
		}
		for _, d := range batch.Datagrams[:n] {
			numbers = append(numbers, int(d.Data[8])<<8|int(d.Data[9]))
		}
	}
	return numbers
}

// all lets an hour pass and returns the packets that have arrived.
func (p *pair) all() []int {
	p.t.Helper()
	p.Advance(time.Hour)
	return p.arrived()
}

func ascending(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func wantNumbers(t *testing.T, got, want []int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("arrived %v, want %v", got, want)
	}
}

func TestNetworkWithoutFaults(t *testing.T) {
	p := newPair(t, 1, nil)
	p.send(p.a, p.b, 500)
	wantNumbers(t, p.arrived(), ascending(500))
	if s := p.Stats(); s.Sent != 500 || s.Delivered != 500 {
		t.Errorf("stats %+v", s)
	}
}

func TestNetworkRepeats(t *testing.T) {
	everything := Faults{Loss: 0.1, Duplicate: 0.1, Corrupt: 0.1, Reorder: 0.1, Delay: time.Millisecond, Jitter: time.Millisecond}
	run := func(seed uint64, disturb bool) []int {
		p := newPair(t, seed, faulty(everything))
		for range 10 {
			p.send(p.a, p.b, 50)
			if disturb { // traffic in another direction, which must not matter
				p.send(p.b, p.a, 7)
			}
			p.Advance(100 * time.Microsecond)
		}
		return p.all()
	}
	first := run(7, false)
	wantNumbers(t, run(7, false), first)
	wantNumbers(t, run(7, true), first)
	if slices.Equal(run(8, false), first) {
		t.Error("another seed makes no difference")
	}
}

func TestNetworkShares(t *testing.T) {
	const count = 10000
	for _, c := range []struct {
		name   string
		faults Faults
		count  func(NetworkStats) uint64
	}{
		{"loss", Faults{Loss: 0.1}, func(s NetworkStats) uint64 { return s.Lost }},
		{"duplicate", Faults{Duplicate: 0.1}, func(s NetworkStats) uint64 { return s.Duplicated }},
		{"corrupt", Faults{Corrupt: 0.1}, func(s NetworkStats) uint64 { return s.Corrupted }},
		{"reorder", Faults{Reorder: 0.1}, func(s NetworkStats) uint64 { return s.Reordered }},
		{"mark", Faults{Mark: 0.1}, func(s NetworkStats) uint64 { return s.Marked }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, 3, faulty(c.faults))
			p.ReceiveBuffer = 1 << 30
			p.b.Ports()[0].(*memoryPort).stats.ReceiveBuffer = 1 << 30
			p.send(p.a, p.b, count)
			p.send(p.b, p.a, 100) // the other direction is clean
			n := len(p.all())
			s := p.Stats()
			if share := float64(c.count(s)) / count; share < 0.09 || share > 0.11 {
				t.Errorf("share %v, want about 0.1", share)
			}
			if want := count - int(s.Lost) + int(s.Duplicated); n != want {
				t.Errorf("%d arrived, want %d", n, want)
			}
		})
	}
}

func TestNetworkCorruption(t *testing.T) {
	p := newPair(t, 1, faulty(Faults{Corrupt: 1}))
	original := packet(2, 64)
	for range 200 {
		wantSent(t, p.a.Ports()[0], []Message{{To: to(p.b), Pieces: [][]byte{original}}}, 1)
		flipped := 0
		for i, b := range receive(t, p.b.Ports()[0], 1)[0].Data {
			flipped += bits.OnesCount8(b ^ original[i])
		}
		if flipped > 8 {
			t.Fatalf("%d bits flipped, want at most 8", flipped)
		}
	}
	if !bytes.Equal(original, packet(2, 64)) {
		t.Error("the sender's memory was changed")
	}
}

func TestNetworkReorder(t *testing.T) {
	const count, by = 3000, 5
	p := newPair(t, 1, faulty(Faults{Reorder: 0.2, ReorderBy: by}))
	p.send(p.a, p.b, count)
	got := p.arrived()
	moved := 0
	for i, n := range got {
		// Held packets do not count as overtaking each other, so a few more can pass.
		if early := i - n; early > 4*by || early < -4*by {
			t.Fatalf("packet %d arrived as number %d", n, i)
		}
		if i != n {
			moved++
		}
	}
	if moved < count/4 {
		t.Errorf("only %d of %d packets are out of place", moved, count)
	}
	got = append(got, p.all()...) // those held at the end
	slices.Sort(got)
	wantNumbers(t, got, ascending(count))
}

func TestNetworkReorderIsExact(t *testing.T) {
	p := newPair(t, 1, nil)
	p.SetFaults(faultsOf(Faults{Reorder: 1, ReorderBy: 1, ReorderWait: 3 * time.Millisecond}))
	p.send(p.a, p.b, 1)
	p.SetFaults(nil)
	wantNumbers(t, p.arrived(), nil)
	if d, ok := p.Next(); !ok || d != 3*time.Millisecond {
		t.Errorf("next arrival in %v, %v; want 3 ms", d, ok)
	}
	wantSent(t, p.a.Ports()[0], []Message{{To: to(p.b), Pieces: [][]byte{numbered(9)}}}, 1)
	wantNumbers(t, p.arrived(), []int{9, 0})

	p.SetFaults(faultsOf(Faults{Reorder: 1}))
	p.send(p.a, p.b, 1)
	p.Advance(defaultReorderWait - 1)
	wantNumbers(t, p.arrived(), nil)
	p.Advance(1)
	wantNumbers(t, p.arrived(), []int{0})
}

func faultsOf(f Faults) func(_, _ netip.Addr) Faults {
	return func(_, _ netip.Addr) Faults { return f }
}

func TestNetworkDelay(t *testing.T) {
	p := newPair(t, 1, faulty(Faults{Delay: 2 * time.Millisecond}))
	if d, ok := p.Next(); ok {
		t.Errorf("something arrives in %v", d)
	}
	p.send(p.a, p.b, 3)
	p.Advance(time.Millisecond)
	wantNumbers(t, p.arrived(), nil)
	if d, ok := p.Next(); !ok || d != time.Millisecond {
		t.Errorf("next arrival in %v, %v; want 1 ms", d, ok)
	}
	p.Advance(time.Millisecond - 1)
	wantNumbers(t, p.arrived(), nil)
	p.Advance(1)
	wantNumbers(t, p.arrived(), ascending(3))
}

func TestNetworkJitter(t *testing.T) {
	p := newPair(t, 1, faulty(Faults{Delay: time.Millisecond, Jitter: time.Millisecond}))
	p.send(p.a, p.b, 100)
	p.Advance(time.Millisecond - 1)
	wantNumbers(t, p.arrived(), nil)
	p.Advance(time.Millisecond + 1)
	got := p.arrived()
	if slices.IsSorted(got) {
		t.Error("jitter reorders nothing")
	}
	slices.Sort(got)
	wantNumbers(t, got, ascending(100))
}

func TestNetworkFilters(t *testing.T) {
	odd := func(b []byte) bool { return b[9]&1 == 1 }
	even := []int{0, 2, 4, 6, 8}
	p := newPair(t, 1, faulty(Faults{Loss: 1, Only: odd}))
	p.send(p.a, p.b, 10)
	wantNumbers(t, p.all(), even)
	p.SetFaults(faultsOf(Faults{Drop: odd}))
	p.send(p.a, p.b, 10)
	wantNumbers(t, p.all(), even)
}

func TestNetworkIdentification(t *testing.T) {
	p := newPair(t, 1, nil)
	segmented := Message{To: to(p.b), SegmentSize: 100, Pieces: [][]byte{packet(2, 350)}}
	single := Message{To: to(p.b), Pieces: [][]byte{packet(2, 350)}}
	wantSent(t, p.a.Ports()[0], []Message{segmented, single, segmented}, 3)
	var ids, sizes []int
	for _, r := range receive(t, p.b.Ports()[0], 9) {
		ids, sizes = append(ids, int(r.ID)), append(sizes, len(r.Data))
	}
	wantNumbers(t, ids, []int{0, 1, 2, 3, 0, 0, 1, 2, 3})
	wantNumbers(t, sizes, []int{100, 100, 100, 50, 350, 100, 100, 100, 50})

	g, err := Join(p.Network, netip.MustParseAddr("2001:db8::1"), 1)
	if err != nil {
		t.Fatal(err)
	}
	segmented.To = to(g)
	wantSent(t, g.Ports()[0], []Message{segmented}, 1)
	for _, r := range receive(t, g.Ports()[0], 4) {
		if r.ID != -1 {
			t.Errorf("identification %d on IPv6", r.ID)
		}
	}
}

func TestNetworkMerge(t *testing.T) {
	lose := -1
	p := newPair(t, 1, func(n *Network) {
		n.Merge = true
		n.Faults = faultsOf(Faults{Drop: func(b []byte) bool { lose--; return lose == 0 }})
	})
	m := Message{To: to(p.b), SegmentSize: 100, Pieces: [][]byte{packet(2, 550)}}
	for _, c := range []struct {
		lose      int      // which packet of six; 0: none
		wantIDs   []int    // of the first packets
		wantSizes [][2]int // bytes and segment size
	}{
		{0, []int{0}, [][2]int{{550, 100}}},
		{1, []int{1}, [][2]int{{450, 100}}},
		{3, []int{0, 3}, [][2]int{{200, 100}, {250, 100}}},
		{5, []int{0, 5}, [][2]int{{400, 100}, {50, 0}}},
	} {
		lose = c.lose
		wantSent(t, p.a.Ports()[0], []Message{m}, 1)
		batch := p.b.Ports()[0].NewBatch()
		n, _ := p.b.Ports()[0].Recv(batch)
		if n != len(c.wantIDs) {
			t.Fatalf("without packet %d: %d datagrams, want %d", c.lose, n, len(c.wantIDs))
		}
		for i, d := range batch.Datagrams[:n] {
			first := c.wantIDs[i] * 100
			if int(d.ID) != c.wantIDs[i] || len(d.Data) != c.wantSizes[i][0] || d.SegmentSize != c.wantSizes[i][1] ||
				!bytes.Equal(d.Data, m.Pieces[0][first:][:len(d.Data)]) {
				t.Errorf("without packet %d: datagram %d has identification %d, %d bytes, segments of %d", c.lose, i, d.ID, len(d.Data), d.SegmentSize)
			}
		}
	}
}

func TestNetworkOverflow(t *testing.T) {
	p := newPair(t, 1, func(n *Network) { n.ReceiveBuffer = 425984 })
	b := p.b.Ports()[0]
	if b.ReceiveBudget() != 212992 {
		t.Errorf("budget %d", b.ReceiveBudget())
	}
	p.send(p.a, p.b, 600)
	wantNumbers(t, p.arrived(), ascending(512)) // the number of small packets that Linux was observed to hold
	if p.Stats().Overflowed != 88 || b.Stats().Overflow != 88 {
		t.Errorf("%d lost, the port says %d; want 88", p.Stats().Overflowed, b.Stats().Overflow)
	}
	large := Message{To: to(p.b), Pieces: [][]byte{packet(2, 4148)}}
	wantSent(t, p.a.Ports()[0], slices.Repeat([]Message{large}, 60), 60)
	receive(t, b, 50)
	wantNothing(t, b)
}

func TestNetworkRefuses(t *testing.T) {
	p := newPair(t, 1, func(n *Network) { n.NoGSO = true })
	port := p.a.Ports()[0]
	if port.GSO() {
		t.Error("GSO is on")
	}
	wantSent(t, port, []Message{
		{To: to(p.b), SegmentSize: 100, Pieces: [][]byte{packet(2, 200)}},
		{To: to(p.b), Pieces: [][]byte{packet(2, 4200-28+1)}},
		{To: to(p.b), Pieces: [][]byte{packet(2, 4200-28)}},
		{To: netip.AddrPortFrom(p.b.Addr(), 1), Pieces: [][]byte{packet(2, 20)}},
	}, 2)
	receive(t, p.b.Ports()[0], 1)
	if s := p.Stats(); s.TooBig != 1 || s.Unreachable != 1 {
		t.Errorf("stats %+v", s)
	}
	if _, err := Join(p.Network, p.a.Addr(), 1); err == nil {
		t.Error("an address was given twice")
	}
	p.a.Close()
	if _, err := Join(p.Network, p.a.Addr(), 1); err != nil {
		t.Errorf("listening after Close: %v", err)
	}
}

// Data that is used after the next Recv must not look correct by chance.
func TestNetworkSpoilsReleasedData(t *testing.T) {
	p := newPair(t, 1, nil)
	batch := p.b.Ports()[0].NewBatch()
	p.send(p.a, p.b, 1)
	p.b.Ports()[0].Recv(batch)
	old := batch.Datagrams[0].Data
	if !bytes.Equal(old, numbered(0)) {
		t.Fatal("wrong data")
	}
	p.b.Ports()[0].Recv(batch)
	if !bytes.Equal(old, bytes.Repeat([]byte{0xa5}, len(old))) {
		t.Error("released data is still readable")
	}
}

func TestNetworkUnderFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(1)
		n.Faults = faultsOf(Faults{Delay: 3 * time.Millisecond})
		a, err := Join(n, netip.MustParseAddr("192.0.2.1"), 1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Join(n, netip.MustParseAddr("192.0.2.2"), 1)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		wantAt := func(want time.Duration) {
			t.Helper()
			if d := time.Since(start); d != want {
				t.Errorf("it is %v, want %v", d, want)
			}
		}
		go func() { // ends after one message
			time.Sleep(time.Second)
			a.Ports()[0].Send([]Message{{To: to(b), Pieces: [][]byte{packet(2, 50)}}})
		}()
		p, batch := b.Ports()[0], b.Ports()[0].NewBatch()
		p.Wait(time.Millisecond)
		wantAt(time.Millisecond)
		p.Wait(-1)
		wantAt(time.Second + 3*time.Millisecond)
		if got, err := p.Recv(batch); got != 1 || err != nil {
			t.Errorf("received %d, %v", got, err)
		}
		time.AfterFunc(time.Minute, p.Wake)
		p.Wait(time.Hour)
		wantAt(time.Minute + time.Second + 3*time.Millisecond)
	})
}

func TestInboundOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var q inbound
	var last arrival
	for i := range 5000 {
		if len(q.heap) == 0 || rng.IntN(5) > 1 && i < 3000 {
			q.push(arrival{at: last.at + time.Duration(rng.IntN(50)), seq: uint64(i)})
			continue
		}
		a := q.pop()
		if i > 0 && a.before(&last) {
			t.Fatalf("arrival at %d, number %d, came after %d, number %d", a.at, a.seq, last.at, last.seq)
		}
		last = a
	}
}
