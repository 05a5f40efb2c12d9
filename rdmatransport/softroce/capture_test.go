package softroce

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/udp"
	"github.com/nvmeof-go/nvmeof/rdmatransport/softroce/internal/wire"
)

func capturing(t *testing.T, e *end, cfg rdmatransport.CaptureConfig) rdmatransport.Capture {
	t.Helper()
	c, err := e.dev.Capture(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, c rdmatransport.Capture) rdmatransport.Captured {
	t.Helper()
	got, err := c.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// directed returns the packets in one direction.
func directed(all []rdmatransport.CapturedPacket, out bool) (packets [][]byte) {
	for _, p := range all {
		if p.Out == out {
			packets = append(packets, bytes.Clone(p.Data))
		}
	}
	return packets
}

// wantAmong requires that each packet that one side has received is among those that the other has sent, compared in
// everything that the ICRC covers.
func wantAmong(t *testing.T, received, sent [][]byte) {
	t.Helper()
	if len(received) == 0 {
		t.Fatal("nothing was received")
	}
	all := map[string]bool{}
	for _, b := range sent {
		all[string(b)] = true
	}
	var icrc wire.ICRC
	for i, b := range received {
		if !all[string(b)] {
			t.Fatalf("packet %d of %d was not sent: %x", i, len(received), b[:48])
		}
		if b[0]>>4 == 4 {
			from := netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), binary.BigEndian.Uint16(b[20:]))
			to := netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:20])), binary.BigEndian.Uint16(b[22:]))
			if path := wire.NewPath(from, to); !icrc.Verify(&path, binary.BigEndian.Uint16(b[4:]), b[28:]) {
				t.Fatalf("packet %d has a wrong ICRC", i)
			}
		}
	}
}

// TestCaptureBothSides captures on both sides, over sockets that merge and split packets, and over a network in
// memory that does. Both sides see the same packets, including those of connection management.
func TestCaptureBothSides(t *testing.T) {
	run := func(t *testing.T, a, b Config) {
		ends := []*end{newEnd(t, a), newEnd(t, b)}
		x := capturing(t, ends[0], rdmatransport.CaptureConfig{Buffer: 16 << 20})
		y := capturing(t, ends[1], rdmatransport.CaptureConfig{Buffer: 16 << 20})
		connect(t, ends[0], ends[1])
		exchange(t, ends[0], ends[1])
		var in, out [2][][]byte
		for range 2 { // packets received in the first round were sent before the second
			for i, c := range []rdmatransport.Capture{x, y} {
				got := read(t, c)
				out[i] = append(out[i], directed(got.Packets, true)...)
				if in[i] == nil {
					in[i] = directed(got.Packets, false)
				}
				if got.Dropped != 0 || got.Seen < uint64(len(got.Packets)) || len(out[i])+len(in[i]) < 100 {
					t.Errorf("%d seen, %d dropped, %d packets", got.Seen, got.Dropped, len(got.Packets))
				}
			}
		}
		wantAmong(t, in[0], out[1])
		wantAmong(t, in[1], out[0])
		x.Close()
		y.Close()
		ends[0].dev.Stats() // wait until the shard has handled the request
		ends[0].do(func() {
			if ends[0].dev.shards[0].tap != nil {
				t.Error("the shard still captures")
			}
		})
		finish(t, ends[0], ends[1])
	}
	t.Run("sockets", func(t *testing.T) {
		run(t, Config{Addr: netip.MustParseAddr("127.94.1.1")}, Config{Addr: netip.MustParseAddr("127.94.1.2")})
	})
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := udp.NewNetwork(1)
			n.Merge = true
			run(t, Config{Addr: netip.MustParseAddr("2001:db8::1"), Network: n}, Config{Addr: netip.MustParseAddr("2001:db8::2"), Network: n})
		})
	})
}

// TestCaptureLess captures one queue pair only and the beginning of each packet, and counts packets that do not fit.
func TestCaptureLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := udp.NewNetwork(1)
		a := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: n})
		b := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.2"), Network: n})
		c := capturing(t, a, rdmatransport.CaptureConfig{Snap: 64, Buffer: 64 << 10, Only: []rdmatransport.QPN{5}})
		if _, err := a.dev.Capture(rdmatransport.CaptureConfig{}); !errors.Is(err, rdmatransport.ErrCapturing) {
			t.Errorf("a second capture: %v", err)
		}
		connect(t, a, b)
		if got := read(t, c); got.Seen != 0 {
			t.Errorf("%d packets of other queue pairs", got.Seen)
		}
		c.Select([]rdmatransport.QPN{a.qp.QPN()})
		a.dev.Stats() // wait until the shard has handled the request
		exchange(t, a, b)
		got := read(t, c)
		if len(got.Packets) != 512 || got.Dropped == 0 || int(got.Seen-got.Dropped) != len(got.Packets) {
			t.Errorf("%d packets, %d seen, %d dropped", len(got.Packets), got.Seen, got.Dropped)
		}
		for _, p := range got.Packets {
			if p.QPN != a.qp.QPN() || len(p.Data) > 64 || p.Length < len(p.Data) {
				t.Fatalf("packet of queue pair %d, %d of %d bytes", p.QPN, len(p.Data), p.Length)
			}
		}
		c.Close()
		c.Close()
		finish(t, a, b)
		if _, err := c.Read(context.Background()); !errors.Is(err, rdmatransport.ErrClosed) {
			t.Errorf("reading of a closed device: %v", err)
		}
		if _, err := a.dev.Capture(rdmatransport.CaptureConfig{}); !errors.Is(err, rdmatransport.ErrClosed) {
			t.Errorf("capturing of a closed device: %v", err)
		}
	})
}

// TestCaptureUndriven: nothing is left in the mailbox of an unused shard, a shard that is used later is captured too,
// and a shard that is not polled ends the capture with an error that says so.
func TestCaptureUndriven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := Open(Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: udp.NewNetwork(1), Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.Capture(rdmatransport.CaptureConfig{})
		if err != nil {
			t.Fatal(err)
		}
		c.Select([]rdmatransport.QPN{5})
		if got, err := c.Read(t.Context()); err != nil || got.Seen != 0 || d.shards[0].mail.Full() {
			t.Errorf("%+v, %v; there is mail for nobody: %v", got, err, d.shards[0].mail.Full())
		}
		cq, err := d.NewCompletionQueue(rdmatransport.CQConfig{})
		if err != nil {
			t.Fatal(err)
		}
		cq.Poll(make([]rdmatransport.Completion, 1))
		if s := d.shards[0]; s.tap == nil || s.tap.all || d.shards[1].mail.Full() {
			t.Errorf("%+v", s.tap)
		}
		begin := time.Now()
		if _, err := c.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "1 of 1 completion queues have not been polled") || time.Since(begin) != readTime {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		c.Close()
		cq.Poll(make([]rdmatransport.Completion, 1))
		if d.shards[0].tap != nil {
			t.Error("the shard still captures")
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestCaptureOfHeaders: packets are cut at Snap even within the headers, since readers of pcapng refuse packets that
// are longer than their interface allows.
func TestCaptureOfHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := udp.NewNetwork(1)
		a := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.1"), Network: n})
		b := newEnd(t, Config{Addr: netip.MustParseAddr("10.0.0.2"), Network: n})
		c := capturing(t, a, rdmatransport.CaptureConfig{Snap: 10})
		connect(t, a, b)
		got := read(t, c)
		for _, p := range got.Packets {
			if len(p.Data) != 10 || p.Length < 28 {
				t.Errorf("%d of %d bytes", len(p.Data), p.Length)
			}
		}
		if len(got.Packets) == 0 {
			t.Error("no packets")
		}
		c.Close()
		finish(t, a, b)
	})
}

// TestTapAllocates: a tap does not allocate, whether or not there is room.
func TestTapAllocates(t *testing.T) {
	data := make([]byte, 1000)
	tap := &tap{dev: &Device{start: time.Now()}, all: true, keep: 200, box: newTapBuffer(64 << 10)}
	at := netip.MustParseAddrPort("192.0.2.1:4791")
	if n := testing.AllocsPerRun(1000, func() { tap.managed(at, at, 0, data) }); n != 0 {
		t.Errorf("%v allocations for each packet", n)
	}
	if got := tap.box.records[0].data; len(got) != 200 || tap.dropped == 0 {
		t.Errorf("%d bytes kept, %d packets dropped", len(got), tap.dropped)
	}
}

// BenchmarkCapture writes 64 KiB to another device and waits for the acknowledgement, with and without a capture.
func BenchmarkCapture(b *testing.B) {
	for name, cfg := range map[string]*rdmatransport.CaptureConfig{"off": nil, "on": {Snap: 256}} {
		b.Run(name, func(b *testing.B) {
			t := new(testing.T)
			ends := []*end{newEnd(t, Config{Addr: netip.MustParseAddr("127.94.1.3")}), newEnd(t, Config{Addr: netip.MustParseAddr("127.94.1.4")})}
			connect(t, ends[0], ends[1])
			var c rdmatransport.Capture
			if cfg != nil {
				c = capturing(t, ends[0], *cfg)
				defer c.Close()
			}
			const size = 64 << 10
			b.SetBytes(size)
			for i := range b.N {
				ends[0].do(func() {
					if err := ends[0].qp.PostSend([]rdmatransport.SendWR{{Op: rdmatransport.OpWrite, Flags: rdmatransport.FlagSignaled,
						SGL: ends[0].sge(0, size), RemoteAddr: ends[1].mr.IOVA(), RKey: ends[1].mr.RKey()}}); err != nil {
						b.Error(err)
					}
				})
				ends[0].want(t, 1)
				if c != nil && i%64 == 63 {
					read(t, c)
				}
			}
			finish(t, ends[0], ends[1])
		})
	}
}
