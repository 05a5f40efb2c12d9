package capsule_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/nvmeof-go/nvmeof/test/golden"
)

// A message is one reassembled SEND, RDMA WRITE or RDMA READ response.
type message struct {
	kind     messageKind
	toTarget bool
	data     []byte
	addr     uint64 // RDMA WRITE
	packet   int
}

type messageKind int

const (
	kindSend messageKind = iota
	kindWrite
	kindReadResponse
)

// position is the meaning of an RC opcode for the packet's position in its message.
type position struct {
	kind        messageKind
	first, last bool
	header      int // bytes of extended headers after the BTH
}

var rcOpcodes = map[byte]position{
	0x00: {kindSend, true, false, 0}, 0x01: {kindSend, false, false, 0},
	0x02: {kindSend, false, true, 0}, 0x03: {kindSend, false, true, 4},
	0x04: {kindSend, true, true, 0}, 0x05: {kindSend, true, true, 4},
	0x16: {kindSend, false, true, 4}, 0x17: {kindSend, true, true, 4},
	0x06: {kindWrite, true, false, 16}, 0x07: {kindWrite, false, false, 0},
	0x08: {kindWrite, false, true, 0}, 0x0a: {kindWrite, true, true, 16},
	0x0d: {kindReadResponse, true, false, 4}, 0x0e: {kindReadResponse, false, false, 0},
	0x0f: {kindReadResponse, false, true, 4}, 0x10: {kindReadResponse, true, true, 4},
}

type flow struct {
	dst  netip.Addr
	qpn  uint32
	kind messageKind
}

type assembly struct {
	message
	next uint32
}

// messages reassembles a capture. If the PSN of a packet does not continue the current message (loss, reordering), the
// packet and its message are omitted.
func messages(t *testing.T, capture string) []message {
	t.Helper()
	packets, err := golden.Load(capture)
	if err != nil {
		t.Fatal(err)
	}
	open := map[flow]*assembly{}
	var out []message
	for _, p := range packets {
		pos, ok := rcOpcodes[p.Payload[0]]
		if !ok {
			continue
		}
		qpn := binary.BigEndian.Uint32(p.Payload[4:]) & 0xffffff
		psn := binary.BigEndian.Uint32(p.Payload[8:]) & 0xffffff
		pad := int(p.Payload[1] >> 4 & 3)
		body := p.Payload[12+pos.header : len(p.Payload)-4-pad]
		f := flow{p.Dst.Addr(), qpn, pos.kind}
		if pos.first {
			open[f] = &assembly{message{kind: pos.kind, toTarget: toTarget(p.Dst.Addr()), packet: p.Number}, psn}
			if pos.kind == kindWrite {
				open[f].addr = binary.BigEndian.Uint64(p.Payload[12:])
			}
		}
		a := open[f]
		if a == nil || a.next != psn {
			continue
		}
		a.data = append(a.data, body...)
		a.next = (psn + 1) & 0xffffff
		if pos.last {
			out = append(out, a.message)
			delete(open, f)
		}
	}
	return out
}

func toTarget(dst netip.Addr) bool {
	return dst == netip.MustParseAddr("10.9.0.1") || dst == netip.MustParseAddr("fd09::1")
}

// mads returns the CM messages of a capture with the given attribute ID: the 232 bytes after the MAD header.
func mads(t *testing.T, capture string, attribute uint16) [][]byte {
	t.Helper()
	packets, err := golden.Load(capture)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, p := range packets {
		const header = 12 + 8 // BTH and DETH
		if p.Payload[0] != 0x64 || len(p.Payload) != header+256+4 {
			continue
		}
		mad := p.Payload[header:]
		if binary.BigEndian.Uint16(mad[16:]) == attribute {
			out = append(out, mad[24:256])
		}
	}
	return out
}
