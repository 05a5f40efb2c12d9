package interop

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// startCapture records the link until the returned function is called, which stops it and returns the capture's path.
// snap is how many bytes of each packet are kept.
func (l *lab) startCapture(t *testing.T, name string, snap int) (stop func() string) {
	t.Helper()
	e := env{"action": "start", "file": name + ".pcap", "snap": snap}
	l.onHost(t, 30*time.Second, "capture", e)
	return func() string {
		t.Helper()
		e["action"] = "stop"
		l.onHost(t, time.Minute, "capture", e)
		return filepath.Join(l.hostDir, name+".pcap")
	}
}

// A seen packet is the head of a RoCEv2 packet over IPv4 in a capture.
type seen struct {
	at       time.Time
	fromHost bool
	opcode   byte   // of the BTH
	destQP   uint32 // destination queue pair, 24 bits
	psn      uint32 // 24 bits
	span     uint32 // of a READ request: how many PSNs its responses take after the first
	mad      []byte // of a packet to QP 1: the captured part from the MAD header on
}

// readCapture reads a file that tcpdump wrote: little-endian pcap of Ethernet.
func readCapture(path string) ([]seen, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(b) < 24 || binary.LittleEndian.Uint32(b) != 0xa1b2c3d4 || binary.LittleEndian.Uint32(b[20:]) != 1 {
		return nil, fmt.Errorf("%s: not a little-endian pcap of Ethernet", path)
	}
	var out []seen
	for b = b[24:]; len(b) >= 16; {
		at := time.Unix(int64(binary.LittleEndian.Uint32(b)), int64(binary.LittleEndian.Uint32(b[4:]))*1000)
		size := int(binary.LittleEndian.Uint32(b[8:]))
		if len(b) < 16+size {
			break // tcpdump was stopped while it wrote a record
		}
		if p, ok := parseFrame(b[16 : 16+size]); ok {
			p.at = at
			out = append(out, p)
		}
		b = b[16+size:]
	}
	return out, nil
}

// parseFrame parses Ethernet, IPv4 without options, UDP to port 4791 and the BTH.
func parseFrame(f []byte) (seen, bool) {
	const bth = 14 + 20 + 8
	if len(f) < bth+12 || binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[14] != 0x45 || f[23] != 17 {
		return seen{}, false
	}
	p := seen{
		fromHost: f[29] == 2, // 10.9.0.2
		opcode:   f[bth],
		destQP:   binary.BigEndian.Uint32(f[bth+4:]) & 0xffffff,
		psn:      binary.BigEndian.Uint32(f[bth+8:]) & 0xffffff,
	}
	if p.destQP == 1 && len(f) > bth+12+8 {
		p.mad = f[bth+12+8:]
	}
	if p.opcode == readRequest && len(f) >= bth+12+16 {
		p.span = max(1, (binary.BigEndian.Uint32(f[bth+12+12:])+rxeMTU-1)/rxeMTU) - 1
	}
	return p, true
}

const (
	readRequest = 0x0c
	rxeMTU      = 1024 // of rdma_rxe, on a link with an MTU of 1500
)

// isRequest reports whether the packet is part of the sender's own PSN sequence: everything but READ responses and
// acknowledgements (0x0d to 0x12).
func (p seen) isRequest() bool {
	return p.destQP != 1 && p.opcode < 0x20 && (p.opcode < 0x0d || p.opcode > 0x12)
}
