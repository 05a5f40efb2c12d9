package packet

import (
	"encoding/binary"
	"errors"
)

// An Opcode is the first byte of the BTH (IBTA 9.2.1): three bits of transport service and five of operation.
type Opcode uint8

const (
	SendFirst          Opcode = 0x00
	SendMiddle         Opcode = 0x01
	SendLast           Opcode = 0x02
	SendOnly           Opcode = 0x04
	SendOnlyImm        Opcode = 0x05
	WriteFirst         Opcode = 0x06
	WriteMiddle        Opcode = 0x07
	WriteLast          Opcode = 0x08
	WriteOnly          Opcode = 0x0a
	WriteOnlyImm       Opcode = 0x0b
	ReadRequest        Opcode = 0x0c
	ReadResponseFirst  Opcode = 0x0d
	ReadResponseMiddle Opcode = 0x0e
	ReadResponseLast   Opcode = 0x0f
	ReadResponseOnly   Opcode = 0x10
	Acknowledge        Opcode = 0x11
	CompareSwap        Opcode = 0x13
	FetchAdd           Opcode = 0x14
	SendOnlyInv        Opcode = 0x17
	DatagramSend       Opcode = 0x64 // of unreliable datagrams: SEND Only
	CNP                Opcode = 0x81
)

// extensions lists the extension headers behind the BTH by opcode (IBTA table 38): d DETH, r RETH, a AETH, t AtomicETH,
// k AtomicAckETH, i immediate data, v the key to invalidate.
var extensions = map[Opcode]string{
	0x03: "i", 0x05: "i", 0x06: "r", 0x09: "i", 0x0a: "r", 0x0b: "ri", 0x0c: "r",
	0x0d: "a", 0x0f: "a", 0x10: "a", 0x11: "a", 0x12: "ak", 0x13: "t", 0x14: "t",
	0x16: "v", 0x17: "v", 0x64: "d", 0x65: "di",
}

var extensionSizes = map[rune]int{'d': 8, 'r': 16, 'a': 4, 't': 28, 'k': 8, 'i': 4, 'v': 4}

// Sizes of the headers and the ICRC, in bytes.
const (
	BTHSize  = 12
	ICRCSize = 4
)

// Port is the UDP port of RoCEv2.
const Port = 4791

// DefaultPKey is the partition key that RoCE uses.
const DefaultPKey uint16 = 0xffff

// A Packet is a RoCEv2 packet without its UDP header and ICRC.
type Packet struct {
	Opcode    Opcode
	Solicited bool
	Migrated  bool
	Pad       uint8 // 2 bits
	Version   uint8 // 4 bits
	PKey      uint16
	FECN      bool
	BECN      bool
	QPN       uint32 // of the receiver, 24 bits
	AckReq    bool
	PSN       uint32 // 24 bits

	QKey      uint32 // DETH
	SrcQPN    uint32
	VA        uint64 // RETH, AtomicETH
	RKey      uint32
	DMALen    uint32
	SwapAdd   uint64 // AtomicETH
	Compare   uint64
	Syndrome  uint8 // AETH
	MSN       uint32
	Original  uint64 // AtomicAckETH
	Immediate uint32
	Key       uint32 // to invalidate

	Payload []byte
}

// ErrShort is the error of Parse for a packet that ends within its headers.
var ErrShort = errors.New("packet is cut short")

// Parse parses a packet that ends with an ICRC, which it does not check. The payload is part of b.
func Parse(b []byte) (p Packet, err error) {
	if len(b) < BTHSize+ICRCSize {
		return p, ErrShort
	}
	body := b[:len(b)-ICRCSize]
	p.Opcode = Opcode(body[0])
	p.Solicited, p.Migrated = body[1]>>7 != 0, body[1]>>6&1 != 0
	p.Pad, p.Version = body[1]>>4&3, body[1]&15
	p.PKey = binary.BigEndian.Uint16(body[2:])
	p.FECN, p.BECN = body[4]>>7 != 0, body[4]>>6&1 != 0
	p.QPN = be24(body[5:])
	p.AckReq, p.PSN = body[8]>>7 != 0, be24(body[9:])
	body = body[BTHSize:]
	for _, x := range extensions[p.Opcode] {
		n := extensionSizes[x]
		if len(body) < n {
			return p, ErrShort
		}
		p.parse(x, body)
		body = body[n:]
	}
	if len(body) < int(p.Pad) {
		return p, ErrShort
	}
	p.Payload = body[:len(body)-int(p.Pad)]
	return p, nil
}

func (p *Packet) parse(extension rune, b []byte) {
	be := binary.BigEndian
	switch extension {
	case 'd':
		p.QKey, p.SrcQPN = be.Uint32(b), be24(b[5:])
	case 'r':
		p.VA, p.RKey, p.DMALen = be.Uint64(b), be.Uint32(b[8:]), be.Uint32(b[12:])
	case 'a':
		p.Syndrome, p.MSN = b[0], be24(b[1:])
	case 't':
		p.VA, p.RKey, p.SwapAdd, p.Compare = be.Uint64(b), be.Uint32(b[8:]), be.Uint64(b[12:]), be.Uint64(b[20:])
	case 'k':
		p.Original = be.Uint64(b)
	case 'i':
		p.Immediate = be.Uint32(b)
	case 'v':
		p.Key = be.Uint32(b)
	}
}

// Append appends the packet to b without its ICRC: the BTH, the extension headers of its opcode, the payload, and Pad
// bytes of padding.
func (p *Packet) Append(b []byte) []byte {
	be := binary.BigEndian
	b = append(b, byte(p.Opcode), flag(p.Solicited, 7)|flag(p.Migrated, 6)|p.Pad<<4&0x30|p.Version&15)
	b = be.AppendUint16(b, p.PKey)
	b = be.AppendUint32(b, uint32(flag(p.FECN, 7)|flag(p.BECN, 6))<<24|p.QPN&0xffffff)
	b = be.AppendUint32(b, uint32(flag(p.AckReq, 7))<<24|p.PSN&0xffffff)
	for _, x := range extensions[p.Opcode] {
		switch x {
		case 'd':
			b = be.AppendUint32(be.AppendUint32(b, p.QKey), p.SrcQPN&0xffffff)
		case 'r':
			b = be.AppendUint32(be.AppendUint32(be.AppendUint64(b, p.VA), p.RKey), p.DMALen)
		case 'a':
			b = be.AppendUint32(b, uint32(p.Syndrome)<<24|p.MSN&0xffffff)
		case 't':
			b = be.AppendUint32(be.AppendUint64(b, p.VA), p.RKey)
			b = be.AppendUint64(be.AppendUint64(b, p.SwapAdd), p.Compare)
		case 'k':
			b = be.AppendUint64(b, p.Original)
		case 'i':
			b = be.AppendUint32(b, p.Immediate)
		case 'v':
			b = be.AppendUint32(b, p.Key)
		}
	}
	b = append(b, p.Payload...)
	return append(b, make([]byte, p.Pad&3)...)
}

func be24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

func flag(on bool, bit uint) byte {
	if on {
		return 1 << bit
	}
	return 0
}
