package wire

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/golden"
)

// eachGolden runs f on every packet of every capture.
func eachGolden(t *testing.T, f func(t *testing.T, g *golden.Packet)) {
	t.Helper()
	for _, name := range golden.Names("") {
		packets, err := golden.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			for i := range packets {
				f(t, &packets[i])
				if t.Failed() {
					t.Fatalf("at packet %d", packets[i].Number)
				}
			}
		})
	}
}

func TestGoldenICRC(t *testing.T) {
	var c ICRC
	eachGolden(t, func(t *testing.T, g *golden.Packet) {
		p := NewPath(g.Src, g.Dst)
		if !c.Verify(&p, g.ID, g.Payload) {
			t.Error("exact check failed")
		}
		if id, ok := c.Identify(&p, g.Payload); !ok || id != g.ID {
			t.Errorf("agnostic check found identification %#x, %v; want %#x", id, ok, g.ID)
		}
		for _, at := range []int{1, 6, len(g.Payload) / 2, len(g.Payload) - 1} {
			g.Payload[at] ^= 1 << (g.Number & 7)
			if c.Verify(&p, g.ID, g.Payload) {
				t.Errorf("exact check missed a flipped bit in byte %d", at)
			}
			if id, ok := c.Identify(&p, g.Payload); ok {
				t.Errorf("agnostic check missed a flipped bit in byte %d: identification %#x", at, id)
			}
			g.Payload[at] ^= 1 << (g.Number & 7)
		}
	})
}

func TestGoldenReemits(t *testing.T) {
	var c ICRC
	var header, out []byte
	eachGolden(t, func(t *testing.T, g *golden.Packet) {
		var p Packet
		if fault := Parse(g.Payload, &p); fault != OK {
			t.Fatal(fault)
		}
		header = AppendHeaders(header[:0], &p)
		out = append(append(out[:0], header...), p.Payload...)
		out = append(out, make([]byte, p.Pad)...)
		path := NewPath(g.Src, g.Dst)
		half := len(p.Payload) / 2
		pieces := [][]byte{p.Payload[:half], p.Payload[half:]}
		out = binary.LittleEndian.AppendUint32(out, c.Sum(&path, g.ID, header, pieces, int(p.Pad)))
		if !bytes.Equal(out, g.Payload) {
			t.Errorf("re-emitted\n%x, want\n%x", out, g.Payload)
		}
	})
}

// Every truncation is refused: by its length, or by the ICRC.
func TestGoldenTruncated(t *testing.T) {
	var c ICRC
	seen := map[Opcode]bool{}
	eachGolden(t, func(t *testing.T, g *golden.Packet) {
		if seen[Opcode(g.Payload[0])] {
			return
		}
		seen[Opcode(g.Payload[0])] = true
		path := NewPath(g.Src, g.Dst)
		for n := range g.Payload {
			var p Packet
			if Parse(g.Payload[:n], &p) == OK && c.Verify(&path, g.ID, g.Payload[:n]) {
				t.Errorf("accepted with %d of %d bytes", n, len(g.Payload))
			}
		}
	})
}
