package udp

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// listenFunc opens endpoint number host of one network.
type listenFunc func(t *testing.T, host, shards int) Group

// onBoth runs a test on sockets and on the in-memory network. Addresses are in 127.77/16, with a third byte per test,
// so that no other test uses them.
func onBoth(t *testing.T, third byte, test func(t *testing.T, listen listenFunc)) {
	at := func(host int) netip.Addr { return netip.AddrFrom4([4]byte{127, 77, third, byte(host)}) }
	t.Run("sockets", func(t *testing.T) {
		test(t, func(t *testing.T, host, shards int) Group { return listenAt(t, at(host), Config{Shards: shards}) })
	})
	t.Run("memory", func(t *testing.T) {
		n := NewNetwork(1)
		n.PathMTU = 65536 // as on loopback
		n.Merge = true
		test(t, func(t *testing.T, host, shards int) Group {
			g, err := Join(n, at(host), shards)
			if err != nil {
				t.Fatal(err)
			}
			return g
		})
	})
}

func listenAt(t testing.TB, addr netip.Addr, cfg Config) Group {
	t.Helper()
	g, err := Listen(addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// packet returns a packet to a queue pair, filled with a pattern.
func packet(qpn, size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7 + qpn)
	}
	copy(b[4:], []byte{0, byte(qpn >> 16), byte(qpn >> 8), byte(qpn)})
	return b
}

func to(g Group) netip.AddrPort { return netip.AddrPortFrom(g.Addr(), roce) }

// received is a copy of a datagram that outlives its batch.
type received struct {
	Datagram
	packets [][]byte
}

// receive waits for the given number of packets, split where they were merged.
func receive(t *testing.T, p Port, packets int) []received {
	t.Helper()
	var got []received
	b := p.NewBatch()
	for deadline := time.Now().Add(5 * time.Second); packets > 0; {
		n, err := p.Recv(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range b.Datagrams[:n] {
			r := received{Datagram: d}
			r.Data = bytes.Clone(d.Data)
			size := d.SegmentSize
			if size == 0 {
				size = max(1, len(d.Data))
			}
			r.packets = slices.Collect(slices.Chunk(r.Data, size))
			packets -= len(r.packets)
			got = append(got, r)
		}
		if n == 0 && time.Now().After(deadline) {
			t.Fatalf("%d packets are missing", packets)
		}
		if n == 0 {
			p.Wait(10 * time.Millisecond)
		}
	}
	if packets < 0 {
		t.Fatalf("%d packets too many", -packets)
	}
	return got
}

func wantNothing(t *testing.T, p Port) {
	t.Helper()
	if n, err := p.Recv(p.NewBatch()); n != 0 || err != nil {
		t.Fatalf("received %d datagrams, error %v; want nothing", n, err)
	}
}

func wantSent(t *testing.T, p Port, ms []Message, want int) {
	t.Helper()
	if n := p.Send(ms); n != want {
		t.Fatalf("%d of %d messages sent, want %d; last error %v", n, len(ms), want, p.Stats().LastSendError)
	}
}

func TestSteering(t *testing.T) {
	onBoth(t, 1, func(t *testing.T, listen listenFunc) {
		a, b := listen(t, 1, 1), listen(t, 2, 4)
		want := map[int][]int{} // QPNs by shard
		var ms []Message
		for _, qpn := range []int{0, 1, 2, 3, 4, 5, 17, 18, 19, 20, 0x123456, 0xfffffd, 0xfffffe, 0xffffff} {
			shard := qpn % 4
			if qpn == 1 {
				shard = 0 // connection management
			}
			want[shard] = append(want[shard], qpn)
			ms = append(ms, Message{To: to(b), Pieces: [][]byte{packet(qpn, 40)}})
		}
		ms = append(ms, Message{To: to(b), Pieces: [][]byte{{1, 2, 3}}}) // too short for a queue pair number
		wantSent(t, a.Ports()[0], ms, len(ms))
		want[0] = append(want[0], -1)
		for shard, p := range b.Ports() {
			var got []int
			for _, r := range receive(t, p, len(want[shard])) {
				if len(r.Data) < 8 {
					got = append(got, -1)
					continue
				}
				got = append(got, int(r.Data[5])<<16|int(r.Data[6])<<8|int(r.Data[7]))
			}
			if !slices.Equal(got, want[shard]) {
				t.Errorf("shard %d got %x, want %x", shard, got, want[shard])
			}
		}
	})
}

func TestManySources(t *testing.T) {
	onBoth(t, 2, func(t *testing.T, listen listenFunc) {
		a, b := listen(t, 1, 1).Ports()[0], listen(t, 2, 1)
		if len(a.Sources()) != 4 {
			t.Fatalf("%d sources, want 4", len(a.Sources()))
		}
		var ms []Message
		for i := range 300 { // more than one round
			ms = append(ms, Message{To: to(b), Source: uint8(i * i % 4), TOS: uint8(i % 3), Pieces: [][]byte{packet(i, 64)}})
		}
		wantSent(t, a, ms, len(ms))
		last := map[netip.AddrPort]int{}
		for _, r := range receive(t, b.Ports()[0], len(ms)) {
			i := int(r.Data[6])<<8 | int(r.Data[7])
			if !bytes.Equal(r.Data, packet(i, 64)) || r.From != a.Sources()[i*i%4] || r.TOS != uint8(i%3) {
				t.Fatalf("message %d: from %v, TOS %d, %x", i, r.From, r.TOS, r.Data)
			}
			if r.From.Port() < 0xc000 {
				t.Fatalf("source port %d, want 0xC000 or above", r.From.Port())
			}
			if before, ok := last[r.From]; ok && before >= i {
				t.Fatalf("message %d arrived after %d of the same source", i, before)
			}
			last[r.From] = i
		}
	})
}

func TestSegmentsMerge(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, listen listenFunc) {
		a, b := listen(t, 1, 1).Ports()[0], listen(t, 2, 1)
		for _, c := range []struct{ segment, count, last int }{
			{1048, 60, 1048}, {4128, 15, 4128}, {4128, 15, 100}, {36, 64, 36}, {36, 1, 36}, {4128, 1, 36}, {65000, 1, 65000},
			{1057, 62, MaxBurst - 61*1057},
		} {
			t.Run(fmt.Sprintf("%dx%d+%d", c.count-1, c.segment, c.last), func(t *testing.T) {
				data := packet(5, c.segment*(c.count-1)+c.last)
				m := Message{To: to(b), SegmentSize: uint16(c.segment), Pieces: [][]byte{data[:10], nil, data[10:20], {}, data[20:]}}
				wantSent(t, a, []Message{m}, 1)
				var got [][]byte
				for _, r := range receive(t, b.Ports()[0], c.count) {
					if c.count > 1 && r.SegmentSize != c.segment {
						t.Errorf("merged to segments of %d bytes, want %d", r.SegmentSize, c.segment)
					}
					got = append(got, r.packets...)
				}
				for k, want := range slices.Collect(slices.Chunk(data, c.segment)) {
					if !bytes.Equal(got[k], want) {
						t.Fatalf("packet %d is not what was sent", k)
					}
				}
			})
		}
		if s := b.Ports()[0].Stats(); s.Merged == 0 {
			t.Error("nothing was merged")
		}
	})
}

func TestRefusedMessages(t *testing.T) {
	onBoth(t, 4, func(t *testing.T, listen listenFunc) {
		a, b := listen(t, 1, 1).Ports()[0], listen(t, 2, 1)
		big := make([]byte, 70000)
		good := Message{To: to(b), Pieces: [][]byte{packet(2, 50)}}
		ms := []Message{
			good,
			{To: to(b), Source: 4, Pieces: good.Pieces},
			{To: to(b), Pieces: [][]byte{big}},
			{To: to(b), SegmentSize: 100, Pieces: [][]byte{big[:MaxSegments*100+1]}},
			{To: to(b), Pieces: make([][]byte, maxPieces+1)},
			good,
			{To: to(b), SegmentSize: 100, Pieces: [][]byte{packet(2, 200)}},
		}
		wantSent(t, a, ms, 3)
		receive(t, b.Ports()[0], 4)
		if s := a.Stats(); s.SendLost != 4 || s.Messages != 3 || !a.GSO() {
			t.Errorf("GSO %v, stats %+v", a.GSO(), s)
		}
	})
}

// A datagram for an unused address or port must not disturb the sender or, by an ICMP error, its receive socket.
func TestNobodyThere(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, listen listenFunc) {
		ga, gb := listen(t, 1, 1), listen(t, 2, 1)
		a, b := ga.Ports()[0], gb.Ports()[0]
		nobody := netip.MustParseAddrPort("127.77.5.9:4791")
		for range 3 {
			wantSent(t, a, []Message{{To: nobody, Pieces: [][]byte{packet(2, 50)}}, {To: to(gb), Pieces: [][]byte{packet(2, 50)}}}, 2)
			receive(t, b, 1)
		}
		// Nor must one for a transmit socket, which is never read.
		wantSent(t, b, []Message{{To: a.Sources()[0], Pieces: [][]byte{packet(2, 50)}}}, 1)
		wantSent(t, a, []Message{{To: to(gb), Pieces: [][]byte{packet(2, 50)}}}, 1)
		receive(t, b, 1)
		wantNothing(t, a)
	})
}

func TestAddressHasOneOwner(t *testing.T) {
	onBoth(t, 6, func(t *testing.T, listen listenFunc) {
		g := listen(t, 1, 2)
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		listen(t, 1, 2)
	})
}

func TestWaitEnds(t *testing.T) {
	onBoth(t, 7, func(t *testing.T, listen listenFunc) {
		a, gb := listen(t, 1, 1).Ports()[0], listen(t, 2, 1)
		b := gb.Ports()[0]
		within := func(what string, least, most time.Duration, wait func()) {
			t.Helper()
			start := time.Now()
			wait()
			if d := time.Since(start); d < least || d > most {
				t.Errorf("%s: waited %v, want %v to %v", what, d, least, most)
			}
		}
		const long = 4 * time.Second
		within("no time", 0, long, func() { b.Wait(0) })
		within("a time limit", 2*time.Millisecond, long, func() { b.Wait(2 * time.Millisecond) })
		b.Wake()
		within("woken before", 0, long, func() { b.Wait(2 * long) })
		within("woken meanwhile", 0, long, func() {
			timer := time.AfterFunc(5*time.Millisecond, b.Wake)
			defer timer.Stop()
			b.Wait(-1)
		})
		within("a datagram", 0, long, func() {
			wantSent(t, a, []Message{{To: to(gb), Pieces: [][]byte{packet(2, 50)}}}, 1)
			b.Wait(2 * long)
		})
		receive(t, b, 1)
		b.Wait(0)
		waited := time.Duration(0)
		// A signal ends a Wait, and each garbage collection of another test sends some. What is left over ends all of them.
		for deadline := time.Now().Add(5 * time.Second); waited < time.Millisecond && time.Now().Before(deadline); {
			start := time.Now()
			b.Wait(time.Millisecond)
			waited = time.Since(start)
		}
		if waited < time.Millisecond {
			t.Error("something is left over: it does not wait")
		}
	})
}

// A Wake after new work must not leave the port asleep.
func TestNoWakeIsLost(t *testing.T) {
	onBoth(t, 10, func(t *testing.T, listen listenFunc) {
		p := listen(t, 1, 1).Ports()[0]
		const rounds = 3000
		var made, done atomic.Int64
		go func() { // ends after its rounds
			for i := range int64(rounds) {
				made.Store(i + 1)
				p.Wake()
				for done.Load() <= i {
					runtime.Gosched()
				}
			}
		}()
		for done.Load() < rounds {
			start := time.Now()
			for made.Load() == done.Load() {
				p.Wait(10 * time.Second)
			}
			if time.Since(start) > 9*time.Second {
				t.Fatalf("round %d: slept through a Wake", made.Load())
			}
			done.Store(made.Load())
		}
	})
}

func TestNoAllocations(t *testing.T) {
	onBoth(t, 8, func(t *testing.T, listen listenFunc) {
		a, gb := listen(t, 1, 1).Ports()[0], listen(t, 2, 1)
		b := gb.Ports()[0]
		data := packet(3, 60*1024)
		ms := []Message{
			{To: to(gb), Pieces: [][]byte{data[:50]}},
			{To: to(gb), Source: 1, TOS: 2, SegmentSize: 4096, Pieces: [][]byte{data[:100], data[100:8192]}},
			{To: to(gb), Source: 2, SegmentSize: 1024, Pieces: [][]byte{data}},
		}
		batch := b.NewBatch()
		turn := func() {
			a.Send(ms)
			b.Wait(time.Second)
			if n, _ := b.Recv(batch); n == 0 {
				t.Error("nothing arrived")
			}
			b.Wake()
			b.Wait(time.Second)
			for n := 1; n > 0; {
				n, _ = b.Recv(batch)
			}
		}
		turn()
		if n := testing.AllocsPerRun(100, turn); n != 0 {
			t.Errorf("%v allocations a turn, want none", n)
		}
	})
}

func TestInvalidListen(t *testing.T) {
	for _, c := range []struct {
		addr string
		cfg  Config
	}{
		{"0.0.0.0", Config{}}, {"::", Config{}}, {"224.0.0.1", Config{}}, {"fe80::1", Config{}},
		{"127.77.9.1", Config{Shards: 65}}, {"127.77.9.1", Config{Shards: -1}}, {"127.77.9.1", Config{Transmit: 17}},
		{"fe80::1%nosuchinterface", Config{}},
	} {
		if g, err := Listen(netip.MustParseAddr(c.addr), c.cfg); err == nil {
			g.Close()
			t.Errorf("listening at %s with %+v succeeded", c.addr, c.cfg)
		} else if errors.As(err, new(*InUseError)) {
			t.Errorf("%s: %v", c.addr, err)
		}
	}
}
