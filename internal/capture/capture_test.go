package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
	"github.com/nvmeof-go/nvmeof/test/golden"
)

var long = flag.Bool("long", false, "what tshark reads, too")

// recorded is a device that captures what was recorded on a wire.
type recorded struct {
	packets  []golden.Packet
	selected [][]rdmatransport.QPN
	began    rdmatransport.CaptureConfig
	busy     error
	gone     error
	reads    int
	closed   bool
}

func (d *recorded) Capture(cfg rdmatransport.CaptureConfig) (rdmatransport.Capture, error) {
	d.began = cfg
	return d, d.busy
}
func (d *recorded) Select(qpns []rdmatransport.QPN) { d.selected = append(d.selected, qpns) }
func (d *recorded) Close()                          { d.closed = true }

func (d *recorded) Read(context.Context) (rdmatransport.Captured, error) {
	d.reads++
	if d.gone != nil {
		return rdmatransport.Captured{}, d.gone
	}
	out := rdmatransport.Captured{Seen: uint64(len(d.packets)), Dropped: 3}
	if d.reads > 1 {
		return out, nil
	}
	for _, p := range d.packets {
		out.Packets = append(out.Packets, rdmatransport.CapturedPacket{Time: time.Unix(1700000000, 0).Add(p.Time), QPN: target(p),
			Out: p.Src == d.packets[1].Src, Length: len(p.IP), Data: p.IP})
	}
	return out, nil
}

// target returns the queue pair to which a packet is sent, 24 bits of the BTH, which does not contain the sender's.
func target(p golden.Packet) rdmatransport.QPN {
	return rdmatransport.QPN(binary.BigEndian.Uint32(p.Payload[4:]) & 0xffffff)
}

func load(t *testing.T) *recorded {
	t.Helper()
	packets, err := golden.Load("nvme-connect")
	if err != nil {
		t.Fatal(err)
	}
	return &recorded{packets: packets}
}

func sources(all ...Source) func() []Source { return func() []Source { return all } }

// TestStream: tshark, if available, reads what is written: packets, comments and counters.
func TestStream(t *testing.T) {
	d := load(t)
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		pair := Pair{Device: d, QPN: target(d.packets[4]), Host: "nqn.h", Name: "host nqn.h, subsystem nqn.s, controller 1, queue 0"}
		err := Stream(t.Context(), Config{Sources: sources(Source{"192.0.2.1", d}), Program: "test", Count: len(d.packets),
			Pairs: func() []Pair { return []Pair{pair} }}, func(b []byte) error { file.Write(b); return nil })
		if err != nil {
			t.Error(err)
		}
	})
	if !d.closed || d.selected != nil || d.began.Only != nil {
		t.Errorf("%+v", d.began)
	}
	var copied bytes.Buffer
	cut := io.MultiReader(bytes.NewReader(file.Bytes()), strings.NewReader("half a block"))
	if sum, err := Copy(&copied, cut, func(c string) { t.Error(c) }); err == nil || sum != (Summary{uint64(len(d.packets)), uint64(len(d.packets)), 3}) || !bytes.Equal(copied.Bytes(), file.Bytes()) {
		t.Errorf("%+v, %v", sum, err)
	}
	if _, err := Copy(io.Discard, bytes.NewReader(file.Bytes()[:file.Len()-5]), nil); err != nil {
		t.Errorf("a stream that breaks off: %v", err)
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil || !*long {
		t.Skip("tshark is not installed, or takes as long as ten tests: -long")
	}
	path := filepath.Join(t.TempDir(), "c.pcapng")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tshark, "-r", path, "-T", "fields", "-e", "frame.interface_name", "-e", "infiniband.bth.destqp", "-e", "frame.time_epoch", "-e", "frame.comment").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	var comments []string
	for i, p := range d.packets {
		at := time.Unix(1700000000, 0).Add(p.Time)
		want := fmt.Sprintf("192.0.2.1\t0x%06x\t%d.%09d\t", target(p), at.Unix(), at.Nanosecond())
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("of %d packets, number %d is read as %q, want %q", len(lines), i, lines[i], want)
		}
		if comment := lines[i][len(want):]; comment != "" {
			comments = append(comments, comment)
		}
	}
	if len(comments) != 1 || !strings.HasPrefix(comments[0], "host nqn.h, subsystem nqn.s, controller 1, queue 0, ") {
		t.Errorf("comments %q", comments)
	}
}

// TestStreamFilter: queue pairs are selected by host and number, including later ones.
func TestStreamFilter(t *testing.T) {
	for _, c := range []struct {
		host       string
		qpn        rdmatransport.QPN
		first, end []rdmatransport.QPN
	}{
		{"nqn.a", 0, []rdmatransport.QPN{20}, []rdmatransport.QPN{20, 21}},
		{"nqn.a", 21, []rdmatransport.QPN{}, []rdmatransport.QPN{21}},
		{"", 1, []rdmatransport.QPN{1}, []rdmatransport.QPN{1}},
		{"nqn.x", 0, []rdmatransport.QPN{}, []rdmatransport.QPN{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := load(t)
			pairs := []Pair{{Device: d, QPN: 20, Host: "nqn.a"}, {Device: d, QPN: 22, Host: "nqn.b"}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			if err := Stream(ctx, Config{Sources: sources(Source{"x", d}), Host: c.host, QPN: c.qpn, Snap: 100, Pairs: func() []Pair {
				defer func() { pairs = append(pairs, Pair{Device: d, QPN: 21, Host: "nqn.a"}) }()
				return pairs[:min(3, len(pairs))]
			}}, func([]byte) error { return nil }); err != nil {
				t.Error(err)
			}
			if n := len(d.selected); n < 2 || !slices.Equal(d.selected[0], c.first) || !slices.Equal(d.selected[n-1], c.end) || d.began.Only == nil || d.began.Snap != 100 {
				t.Errorf("%q, %d: selected %v, want %v and then %v", c.host, c.qpn, d.selected, c.first, c.end)
			}
		})
	}
}

// TestStreamDevices: the removal of a device ends neither the capture nor its counts; a new device is captured. The
// file notes both.
func TestStreamDevices(t *testing.T) {
	first, second := load(t), load(t)
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		there := func() []Source {
			switch since := time.Since(begin); {
			case since < 2*time.Second:
				return []Source{{"192.0.2.1", first}}
			case since < 4*time.Second:
				first.gone = rdmatransport.ErrClosed // no other goroutine reads it now
				return nil
			}
			return []Source{{"192.0.2.1", second}}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second+time.Millisecond)
		defer cancel()
		if err := Stream(ctx, Config{Sources: there, Pairs: func() []Pair { return nil }},
			func(b []byte) error { file.Write(b); return nil }); err != nil {
			t.Error(err)
		}
	})
	if !first.closed || !second.closed {
		t.Errorf("closed: %v, %v", first.closed, second.closed)
	}
	var comments []string
	sum, err := Copy(io.Discard, &file, func(c string) { comments = append(comments, c) })
	if n := uint64(2 * len(first.packets)); err != nil || sum != (Summary{n, n, 6}) {
		t.Errorf("%+v, %v", sum, err)
	}
	if len(comments) != 2 || !strings.Contains(comments[0], "device 192.0.2.1 is no longer captured, since") || !strings.Contains(comments[0], rdmatransport.ErrClosed.Error()) ||
		!strings.Contains(comments[1], "device 192.0.2.1 is captured from") {
		t.Errorf("comments %q", comments)
	}
}

func TestStreamErrors(t *testing.T) {
	d := load(t)
	d.busy = rdmatransport.ErrCapturing
	cfg := Config{Sources: sources(Source{"x", d}), Pairs: func() []Pair { return nil }}
	if err := Stream(t.Context(), cfg, nil); !errors.Is(err, rdmatransport.ErrCapturing) {
		t.Error(err)
	}
	d.busy = nil
	if err := Stream(t.Context(), cfg, func([]byte) error { return io.ErrClosedPipe }); err != io.ErrClosedPipe || !d.closed {
		t.Error(err)
	}
	var we *WriteError
	r, w := io.Pipe()
	r.Close()
	if _, err := Copy(w, bytes.NewReader(appendSection(nil, "", "")), nil); !errors.As(err, &we) || !errors.Is(err, io.ErrClosedPipe) || we.Error() == "" {
		t.Error(err)
	}
}

// FuzzCopy: what a target sends cannot make its client take much memory, or read beyond a block.
func FuzzCopy(f *testing.F) {
	f.Add(appendStatistics(appendInterface(appendSection(nil, "a", "b"), "c", "d", 0, "e"), 0, time.Unix(1, 2), new(rdmatransport.Captured), "f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		_, err := Copy(&out, bytes.NewReader(b), func(c string) {
			if len(c) > len(b) {
				t.Error(c)
			}
		})
		if out.Len() > len(b) || !bytes.HasPrefix(b, out.Bytes()) || err == nil && len(b)-out.Len() > maxBlock {
			t.Errorf("%d bytes of %d, %v", out.Len(), len(b), err)
		}
	})
}
