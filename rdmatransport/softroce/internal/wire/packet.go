package wire

import (
	"encoding/binary"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// DefaultPKey is the partition key of RoCE: the default partition, full member.
const DefaultPKey = 0xffff

// A Packet is one RoCEv2 packet with its headers decoded. Only the extension headers of its opcode have a meaning;
// Parse leaves the others zero.
type Packet struct {
	Payload []byte // without pad and ICRC; refers to the parsed buffer

	RETH      RETH
	AtomicETH AtomicETH
	AtomicAck uint64 // value of the memory before the atomic operation
	DETH      DETH
	AETH      AETH
	Imm       uint32
	InvKey    rdmatransport.RKey

	DestQPN   rdmatransport.QPN
	PSN       PSN
	PKey      uint16
	Opcode    Opcode
	Pad       uint8 // number of bytes between payload and ICRC: 0 to 3
	Version   uint8 // transport header version: 0
	Solicited bool  // solicited event
	MigReq    bool  // path migration state; RNICs differ, and it is ignored here
	AckReq    bool
	FECN      bool // this packet met congestion
	BECN      bool // packets in the other direction met congestion
}

// RETH identifies the memory of an RDMA WRITE or READ (IBTA 9.3.3).
type RETH struct {
	VA     uint64
	RKey   rdmatransport.RKey
	DMALen uint32 // bytes of the whole message
}

// AtomicETH carries an atomic request (IBTA 9.3.4).
type AtomicETH struct {
	VA      uint64
	SwapAdd uint64 // the value to write, or to add
	Compare uint64
	RKey    rdmatransport.RKey
}

// DETH identifies the sender of a datagram (IBTA 9.3.2).
type DETH struct {
	QKey   uint32
	SrcQPN rdmatransport.QPN
}

// AETH is an acknowledgement (IBTA 9.3.5).
type AETH struct {
	Syndrome Syndrome
	MSN      MSN
}

// Parse decodes b, a UDP payload from the BTH to the end of the ICRC, into p. It checks lengths, pad, version and
// opcode, but neither the ICRC nor the P_Key, and ignores reserved bits. p refers to b. For BadVersion, UnknownOpcode
// and BadPad the BTH's fields are decoded nevertheless, and p's other fields are zero.
func Parse(b []byte, p *Packet) Fault {
	*p = Packet{}
	if len(b) < BTHSize+ICRCSize {
		return ShortPacket
	}
	p.parseBTH((*[BTHSize]byte)(b))
	if p.Version != 0 {
		return BadVersion
	}
	op := &opcodes[p.Opcode]
	if op.flags == 0 {
		return UnknownOpcode
	}
	rest := len(b) - int(op.length) - ICRCSize
	if rest < 0 {
		return ShortPacket
	}
	// Payload and pad together are whole words (IBTA 9.2.5), as are all other parts.
	if rest < int(p.Pad) || len(b)&3 != 0 {
		return BadPad
	}
	at := int(op.length)
	p.Payload = b[at : at+rest-int(p.Pad)]
	if at > BTHSize {
		p.parseExtensions(op.flags, b[BTHSize:at])
	}
	return OK
}

func (p *Packet) parseBTH(b *[BTHSize]byte) {
	p.Opcode = Opcode(b[0])
	p.Solicited = b[1]&0x80 != 0
	p.MigReq = b[1]&0x40 != 0
	p.Pad = b[1] >> 4 & 3
	p.Version = b[1] & 15
	p.PKey = binary.BigEndian.Uint16(b[2:])
	p.FECN = b[4]&0x80 != 0
	p.BECN = b[4]&0x40 != 0
	p.DestQPN = rdmatransport.QPN(uint24(b[5:]))
	p.AckReq = b[8]&0x80 != 0
	p.PSN = PSN(uint24(b[9:]))
}

// parseExtensions decodes the extension headers, of which b consists.
func (p *Packet) parseExtensions(f OpFlags, b []byte) {
	if f&FlagHasDETH != 0 {
		p.DETH = DETH{binary.BigEndian.Uint32(b), rdmatransport.QPN(uint24(b[5:]))}
		b = b[DETHSize:]
	}
	if f&FlagHasRETH != 0 {
		p.RETH.VA = binary.BigEndian.Uint64(b)
		p.RETH.RKey = rdmatransport.RKey(binary.BigEndian.Uint32(b[8:]))
		p.RETH.DMALen = binary.BigEndian.Uint32(b[12:])
		b = b[RETHSize:]
	}
	if f&FlagHasAtomicETH != 0 {
		p.AtomicETH.VA = binary.BigEndian.Uint64(b)
		p.AtomicETH.RKey = rdmatransport.RKey(binary.BigEndian.Uint32(b[8:]))
		p.AtomicETH.SwapAdd = binary.BigEndian.Uint64(b[12:])
		p.AtomicETH.Compare = binary.BigEndian.Uint64(b[20:])
	}
	if f&FlagHasAETH != 0 {
		p.AETH = AETH{Syndrome(b[0]), MSN(uint24(b[1:]))}
		b = b[AETHSize:]
	}
	if f&FlagHasAtomicAckETH != 0 {
		p.AtomicAck = binary.BigEndian.Uint64(b)
	}
	if f&FlagHasImm != 0 {
		p.Imm = binary.BigEndian.Uint32(b)
	}
	if f&FlagHasInv != 0 {
		p.InvKey = rdmatransport.RKey(binary.BigEndian.Uint32(b))
	}
}

// AppendHeaders appends the BTH and the extension headers of p's opcode, at most MaxHeaderSize bytes. The caller
// appends the payload, p.Pad zero bytes and the ICRC.
func AppendHeaders(dst []byte, p *Packet) []byte {
	flags := byte(p.Pad&3)<<4 | p.Version&15 | bit(p.Solicited, 0x80) | bit(p.MigReq, 0x40)
	dst = append(dst, byte(p.Opcode), flags, byte(p.PKey>>8), byte(p.PKey),
		bit(p.FECN, 0x80)|bit(p.BECN, 0x40), byte(p.DestQPN>>16), byte(p.DestQPN>>8), byte(p.DestQPN),
		bit(p.AckReq, 0x80), byte(p.PSN>>16), byte(p.PSN>>8), byte(p.PSN))
	op := &opcodes[p.Opcode]
	if op.length > BTHSize {
		dst = p.appendExtensions(dst, op.flags)
	}
	return dst
}

func (p *Packet) appendExtensions(dst []byte, f OpFlags) []byte {
	be := binary.BigEndian
	if f&FlagHasDETH != 0 {
		dst = be.AppendUint32(dst, p.DETH.QKey)
		dst = be.AppendUint32(dst, uint32(p.DETH.SrcQPN)&mask24)
	}
	if f&FlagHasRETH != 0 {
		dst = be.AppendUint64(dst, p.RETH.VA)
		dst = be.AppendUint32(dst, uint32(p.RETH.RKey))
		dst = be.AppendUint32(dst, p.RETH.DMALen)
	}
	if f&FlagHasAtomicETH != 0 {
		dst = be.AppendUint64(dst, p.AtomicETH.VA)
		dst = be.AppendUint32(dst, uint32(p.AtomicETH.RKey))
		dst = be.AppendUint64(dst, p.AtomicETH.SwapAdd)
		dst = be.AppendUint64(dst, p.AtomicETH.Compare)
	}
	if f&FlagHasAETH != 0 {
		dst = be.AppendUint32(dst, uint32(p.AETH.Syndrome)<<24|uint32(p.AETH.MSN)&mask24)
	}
	if f&FlagHasAtomicAckETH != 0 {
		dst = be.AppendUint64(dst, p.AtomicAck)
	}
	if f&FlagHasImm != 0 {
		dst = be.AppendUint32(dst, p.Imm)
	}
	if f&FlagHasInv != 0 {
		dst = be.AppendUint32(dst, uint32(p.InvKey))
	}
	return dst
}

func uint24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

func bit(set bool, mask byte) byte {
	if set {
		return mask
	}
	return 0
}
