package wire

import "fmt"

// Opcode is the operation code of the BTH (IBTA table 35), with the transport service in the top three bits.
type Opcode uint8

const (
	RCSendFirst          Opcode = 0x00
	RCSendMiddle         Opcode = 0x01
	RCSendLast           Opcode = 0x02
	RCSendLastImm        Opcode = 0x03
	RCSendOnly           Opcode = 0x04
	RCSendOnlyImm        Opcode = 0x05
	RCWriteFirst         Opcode = 0x06
	RCWriteMiddle        Opcode = 0x07
	RCWriteLast          Opcode = 0x08
	RCWriteLastImm       Opcode = 0x09
	RCWriteOnly          Opcode = 0x0a
	RCWriteOnlyImm       Opcode = 0x0b
	RCReadRequest        Opcode = 0x0c
	RCReadResponseFirst  Opcode = 0x0d
	RCReadResponseMiddle Opcode = 0x0e
	RCReadResponseLast   Opcode = 0x0f
	RCReadResponseOnly   Opcode = 0x10
	RCAck                Opcode = 0x11
	RCAtomicAck          Opcode = 0x12
	RCCompareSwap        Opcode = 0x13
	RCFetchAdd           Opcode = 0x14
	RCSendLastInv        Opcode = 0x16
	RCSendOnlyInv        Opcode = 0x17
	UDSendOnly           Opcode = 0x64
	UDSendOnlyImm        Opcode = 0x65
	CNP                  Opcode = 0x81 // congestion notification packet (IBTA A17.9.3)
)

// OpFlags are the properties of an opcode. Unknown opcodes have none.
type OpFlags uint32

const (
	// The operation.
	FlagSend OpFlags = 1 << iota
	FlagWrite
	FlagReadRequest
	FlagReadResponse
	FlagAck
	FlagAtomic    // compare-and-swap or fetch-and-add request
	FlagAtomicAck // its response
	FlagCNP

	// Position of the packet in its message. ONLY has both Start and End, FIRST only Start, LAST only End, MIDDLE
	// neither.
	FlagStart
	FlagEnd

	FlagRequest  // uses a PSN of the requester
	FlagResponse // sent by the responder

	// Extension headers, in the order in which they follow the BTH.
	FlagHasDETH
	FlagHasRETH
	FlagHasAtomicETH
	FlagHasAETH
	FlagHasAtomicAckETH
	FlagHasImm
	FlagHasInv

	FlagPayload      // may carry payload
	FlagConsumesRecv // the end of its message completes a receive work request
)

const (
	flagOnly = FlagStart | FlagEnd

	flagSend   = FlagSend | FlagRequest | FlagPayload
	flagWrite  = FlagWrite | FlagRequest | FlagPayload
	flagRead   = FlagReadResponse | FlagResponse | FlagPayload
	flagAtomic = FlagAtomic | FlagRequest | FlagHasAtomicETH | flagOnly
)

// Sizes in bytes of the BTH, its extensions (IBTA 9.2 to 9.4) and the ICRC.
const (
	BTHSize          = 12
	DETHSize         = 8
	RETHSize         = 16
	AtomicETHSize    = 28
	AETHSize         = 4
	AtomicAckETHSize = 8
	ImmSize          = 4
	InvSize          = 4
	ICRCSize         = 4

	// MaxHeaderSize is the maximum length of the headers that AppendHeaders writes.
	MaxHeaderSize = BTHSize + AtomicETHSize
)

type opcodeInfo struct {
	name   string
	flags  OpFlags
	length uint8 // of the BTH and the extension headers
	class  Class
}

var opcodes = [256]opcodeInfo{
	RCSendFirst:          {"RC SEND First", flagSend | FlagStart, 12, ClassSend},
	RCSendMiddle:         {"RC SEND Middle", flagSend, 12, ClassSend},
	RCSendLast:           {"RC SEND Last", flagSend | FlagEnd | FlagConsumesRecv, 12, ClassSend},
	RCSendLastImm:        {"RC SEND Last with Immediate", flagSend | FlagEnd | FlagHasImm | FlagConsumesRecv, 16, ClassSend},
	RCSendOnly:           {"RC SEND Only", flagSend | flagOnly | FlagConsumesRecv, 12, ClassSend},
	RCSendOnlyImm:        {"RC SEND Only with Immediate", flagSend | flagOnly | FlagHasImm | FlagConsumesRecv, 16, ClassSend},
	RCWriteFirst:         {"RC RDMA WRITE First", flagWrite | FlagStart | FlagHasRETH, 28, ClassWrite},
	RCWriteMiddle:        {"RC RDMA WRITE Middle", flagWrite, 12, ClassWrite},
	RCWriteLast:          {"RC RDMA WRITE Last", flagWrite | FlagEnd, 12, ClassWrite},
	RCWriteLastImm:       {"RC RDMA WRITE Last with Immediate", flagWrite | FlagEnd | FlagHasImm | FlagConsumesRecv, 16, ClassWrite},
	RCWriteOnly:          {"RC RDMA WRITE Only", flagWrite | flagOnly | FlagHasRETH, 28, ClassWrite},
	RCWriteOnlyImm:       {"RC RDMA WRITE Only with Immediate", flagWrite | flagOnly | FlagHasRETH | FlagHasImm | FlagConsumesRecv, 32, ClassWrite},
	RCReadRequest:        {"RC RDMA READ Request", FlagReadRequest | FlagRequest | flagOnly | FlagHasRETH, 28, ClassReadRequest},
	RCReadResponseFirst:  {"RC RDMA READ Response First", flagRead | FlagStart | FlagHasAETH, 16, ClassReadResponse},
	RCReadResponseMiddle: {"RC RDMA READ Response Middle", flagRead, 12, ClassReadResponse},
	RCReadResponseLast:   {"RC RDMA READ Response Last", flagRead | FlagEnd | FlagHasAETH, 16, ClassReadResponse},
	RCReadResponseOnly:   {"RC RDMA READ Response Only", flagRead | flagOnly | FlagHasAETH, 16, ClassReadResponse},
	RCAck:                {"RC Acknowledge", FlagAck | FlagResponse | flagOnly | FlagHasAETH, 16, ClassAck},
	RCAtomicAck:          {"RC ATOMIC Acknowledge", FlagAtomicAck | FlagResponse | flagOnly | FlagHasAETH | FlagHasAtomicAckETH, 24, ClassAtomic},
	RCCompareSwap:        {"RC CmpSwap", flagAtomic, 40, ClassAtomic},
	RCFetchAdd:           {"RC FetchAdd", flagAtomic, 40, ClassAtomic},
	RCSendLastInv:        {"RC SEND Last with Invalidate", flagSend | FlagEnd | FlagHasInv | FlagConsumesRecv, 16, ClassSend},
	RCSendOnlyInv:        {"RC SEND Only with Invalidate", flagSend | flagOnly | FlagHasInv | FlagConsumesRecv, 16, ClassSend},
	UDSendOnly:           {"UD SEND Only", flagSend | flagOnly | FlagHasDETH | FlagConsumesRecv, 20, ClassManagement},
	UDSendOnlyImm:        {"UD SEND Only with Immediate", flagSend | flagOnly | FlagHasDETH | FlagHasImm | FlagConsumesRecv, 24, ClassManagement},
	CNP:                  {"CNP", FlagCNP | FlagPayload, 12, ClassCNP},
}

// Flags returns the opcode's properties, or 0 for an unknown one.
func (o Opcode) Flags() OpFlags { return opcodes[o].flags }

// HeaderSize returns the number of bytes of the BTH and the extension headers, or 0 for an unknown opcode.
func (o Opcode) HeaderSize() int { return int(opcodes[o].length) }

// IsRC reports whether the opcode, known or reserved, belongs to the reliable connected service.
func (o Opcode) IsRC() bool { return o>>5 == 0 }

// IsUD reports whether the opcode, known or reserved, belongs to the unreliable datagram service.
func (o Opcode) IsUD() bool { return o>>5 == 3 }

// A Class is a class of opcodes, for statistics.
type Class uint8

// Classes of opcodes. Unknown opcodes have the first.
const (
	ClassUnknown Class = iota
	ClassSend
	ClassWrite
	ClassReadRequest
	ClassReadResponse
	ClassAck
	ClassAtomic
	ClassCNP
	ClassManagement
	NumClasses
)

// String returns the class as a label for statistics.
func (c Class) String() string {
	return [NumClasses]string{"unknown", "send", "write", "read_request", "read_response", "ack", "atomic", "cnp", "cm"}[c]
}

// Class returns the opcode's class.
func (o Opcode) Class() Class { return opcodes[o].class }

func (o Opcode) String() string {
	if name := opcodes[o].name; name != "" {
		return name
	}
	return fmt.Sprintf("reserved opcode %#02x", uint8(o))
}
