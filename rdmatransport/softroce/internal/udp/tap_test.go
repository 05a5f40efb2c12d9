package udp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/golden"
)

// tapped sends what was recorded between two kernels through two taps, of the
// sender and of the receiver.
func tapped(t *testing.T, capture string, from, to string) (sent, got *bytes.Buffer, packets []golden.Packet) {
	t.Helper()
	packets, err := golden.Load(capture)
	if err != nil {
		t.Fatal(err)
	}
	n := NewNetwork(1)
	n.Manual = true
	n.PathMTU = 9000
	sent, got = new(bytes.Buffer), new(bytes.Buffer)
	groups := make([]Group, 2)
	for i, w := range []*bytes.Buffer{sent, got} {
		g, err := Join(n, netip.MustParseAddr([]string{from, to}[i]), 1)
		if err == nil {
			groups[i], err = Tap(g, w)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := groups[0].Ports()[0], groups[1].Ports()[0]
	batch := b.NewBatch()
	for _, p := range packets {
		wantSent(t, a, []Message{{To: netip.AddrPortFrom(groups[1].Addr(), roce), TOS: 0x60, Pieces: [][]byte{p.Payload[:8], p.Payload[8:]}}}, 1)
		if n, _ := b.Recv(batch); n != 1 || !bytes.Equal(batch.Datagrams[0].Data, p.Payload) {
			t.Fatal("the tap changes the data")
		}
	}
	for _, g := range groups {
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return sent, got, packets
}

// frames splits a pcap file.
func frames(t *testing.T, file []byte) (out [][]byte) {
	t.Helper()
	if len(file) < 24 {
		t.Fatal("no file header")
	}
	for b := file[24:]; len(b) > 0; {
		n := int(binary.LittleEndian.Uint32(b[8:]))
		if len(b) < 16+n || binary.LittleEndian.Uint32(b[12:]) != uint32(n) {
			t.Fatal("a frame is cut off")
		}
		out = append(out, b[16:16+n])
		b = b[16+n:]
	}
	return out
}

func TestTapRecordsBothSidesAlike(t *testing.T) {
	sent, got, packets := tapped(t, "nvme-connect", "192.0.2.1", "192.0.2.2")
	a, b := frames(t, sent.Bytes()), frames(t, got.Bytes())
	if len(a) != len(packets) || len(b) != len(packets) {
		t.Fatalf("%d sent and %d received frames, want %d", len(a), len(b), len(packets))
	}
	for i, f := range a {
		if !bytes.Equal(f, b[i]) || !bytes.Equal(f[14+20+8:], packets[i].Payload) {
			t.Fatalf("frame %d differs", i)
		}
	}
}

func TestTapSplitsSegments(t *testing.T) {
	var file bytes.Buffer
	n := NewNetwork(1)
	n.Merge = true
	g, err := Join(n, netip.MustParseAddr("192.0.2.1"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if g, err = Tap(g, &file); err != nil {
		t.Fatal(err)
	}
	p, data := g.Ports()[0], packet(2, 350)
	wantSent(t, p, []Message{{To: to(g), SegmentSize: 100, Pieces: [][]byte{data}}, {To: to(g), Pieces: [][]byte{data[:50], data[50:60]}}}, 2)
	receive(t, p, 5)
	all := frames(t, file.Bytes())
	if len(all) != 10 {
		t.Fatalf("%d frames, want 10", len(all))
	}
	var payloads [][]byte
	for i, f := range all {
		payloads = append(payloads, f[42:])
		if id := int(binary.BigEndian.Uint16(f[18:])); id != []int{0, 1, 2, 3, 0}[i%5] {
			t.Errorf("frame %d has identification %d", i, id)
		}
	}
	if !bytes.Equal(slices.Concat(payloads...), slices.Concat(data, data[:60], data, data[:60])) {
		t.Error("the frames do not hold the data")
	}
}

type failingWriter struct{ left int }

var errFull = errors.New("disk full")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestTapReportsWriteErrors(t *testing.T) {
	g, err := Join(NewNetwork(1), netip.MustParseAddr("192.0.2.1"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Tap(g, &failingWriter{}); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
	if g, err = Tap(g, &failingWriter{left: 2}); err != nil {
		t.Fatal(err)
	}
	m := []Message{{To: to(g), Pieces: [][]byte{packet(2, 20)}}}
	for range 3 {
		wantSent(t, g.Ports()[0], m, 1)
		receive(t, g.Ports()[0], 1)
	}
	if err := g.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close returns %v, want that the disk was full", err)
	}
}

// tshark must find the headers right and the packets to be RoCEv2.
func TestTapForTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	for _, c := range []struct{ capture, from, to, version, class, tos string }{
		{"nvme-connect", "192.0.2.1", "192.0.2.2", "ip", "ip.dsfield", "0x60"},
		{"nvme-ipv6", "2001:db8::1", "2001:db8::2", "ipv6", "ipv6.tclass", "0x00000060"},
	} {
		t.Run(c.version, func(t *testing.T) {
			sent, _, packets := tapped(t, c.capture, c.from, c.to)
			file := filepath.Join(t.TempDir(), "tap.pcap")
			if err := os.WriteFile(file, sent.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(tshark, "-r", file, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields",
				"-e", c.version+".src", "-e", c.version+".dst", "-e", c.class, "-e", "udp.checksum.status", "-e", "udp.dstport",
				"-e", "infiniband.bth.destqp", "-e", "infiniband.bth.psn")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
			if len(lines) != len(packets) {
				t.Fatalf("tshark reads %d frames, want %d", len(lines), len(packets))
			}
			for i, p := range packets {
				b := p.Payload
				word := func(b []byte) uint32 { return binary.BigEndian.Uint32(b) & 0xffffff }
				want := fmt.Sprintf("%s\t%s\t%s\t1\t4791\t0x%06x\t%d", c.from, c.to, c.tos, word(b[4:]), word(b[8:]))
				if lines[i] != want {
					t.Fatalf("frame %d: tshark reads %q, want %q", i+1, lines[i], want)
				}
			}
		})
	}
}
