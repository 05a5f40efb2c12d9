package udp

import (
	"fmt"
	"net/netip"
	"testing"
)

// The benchmarks run both ends on one thread, so that they measure the cost of the calls and not how fast threads
// wake each other. internal/floor uses two threads.

func benchPair(b *testing.B, cfg Config) (Port, Port, Group) {
	from := listenAt(b, netip.MustParseAddr("127.77.50.1"), cfg)
	to := listenAt(b, netip.MustParseAddr("127.77.50.2"), cfg)
	return from.Ports()[0], to.Ports()[0], to
}

// BenchmarkOneWay sends and receives 60 KiB in packets, either in one send with segments that arrives merged, or one
// by one.
func BenchmarkOneWay(b *testing.B) {
	for _, c := range []struct{ size, count int }{{4128, 15}, {2080, 30}, {1056, 60}} {
		for _, segments := range []bool{true, false} {
			b.Run(fmt.Sprintf("packet=%d/gso=%v", c.size, segments), func(b *testing.B) {
				from, to, group := benchPair(b, Config{NoGSO: !segments, NoGRO: !segments})
				data := make([]byte, c.size*c.count)
				ms := []Message{{To: netip.AddrPortFrom(group.Addr(), roce), SegmentSize: uint16(c.size), Pieces: [][]byte{data}}}
				if !segments {
					ms = ms[:0]
					for i := range c.count {
						ms = append(ms, Message{To: netip.AddrPortFrom(group.Addr(), roce), Pieces: [][]byte{data[i*c.size:][:c.size]}})
					}
				}
				batch := to.NewBatch()
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					if from.Send(ms) != len(ms) {
						b.Fatal("not sent")
					}
					for got := 0; got < len(data); {
						n, _ := to.Recv(batch)
						for _, d := range batch.Datagrams[:n] {
							got += len(d.Data)
						}
					}
				}
			})
		}
	}
}

// BenchmarkRoundTrip sends a command of 80 bytes in one direction, and 4 KiB of data and a response in the other.
func BenchmarkRoundTrip(b *testing.B) {
	host, target, group := benchPair(b, Config{})
	command := []Message{{To: netip.AddrPortFrom(group.Addr(), roce), Pieces: [][]byte{make([]byte, 80)}}}
	back := netip.AddrPortFrom(host.Sources()[0].Addr(), roce)
	answer := []Message{
		{To: back, Pieces: [][]byte{make([]byte, 28), make([]byte, 4100)}},
		{To: back, Pieces: [][]byte{make([]byte, 36)}},
	}
	hb, tb := host.NewBatch(), target.NewBatch()
	b.ReportAllocs()
	for b.Loop() {
		host.Send(command)
		for n := 0; n < 1; {
			n, _ = target.Recv(tb)
		}
		target.Send(answer)
		for n := 0; n < 2; {
			k, _ := host.Recv(hb)
			n += k
		}
	}
}

func BenchmarkEmptyRecv(b *testing.B) {
	p, _, _ := benchPair(b, Config{})
	batch := p.NewBatch()
	for b.Loop() {
		if n, err := p.Recv(batch); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}
