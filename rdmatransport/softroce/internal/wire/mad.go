package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Destination of management datagrams (IBTA 3.5.3, 10.2.4).
const (
	CMQPN  rdmatransport.QPN = 1          // the general services interface
	CMQKey uint32            = 0x80010000 // its well-known Q_Key
)

// MADSize is the size of every management datagram; its first MADHeaderSize
// bytes are the common header (IBTA 13.4.2).
const (
	MADSize       = 256
	MADHeaderSize = 24
)

// A MAD is a management datagram.
type MAD [MADSize]byte

// AttributeID identifies the messages of communication management (IBTA table 332).
type AttributeID uint16

const (
	AttrREQ  AttributeID = 0x10 // request for communication
	AttrMRA  AttributeID = 0x11 // message receipt acknowledgement
	AttrREJ  AttributeID = 0x12 // reject
	AttrREP  AttributeID = 0x13 // reply to request
	AttrRTU  AttributeID = 0x14 // ready to use
	AttrDREQ AttributeID = 0x15 // disconnection request
	AttrDREP AttributeID = 0x16 // disconnection reply
)

func (a AttributeID) String() string {
	switch a {
	case AttrREQ:
		return "REQ"
	case AttrMRA:
		return "MRA"
	case AttrREJ:
		return "REJ"
	case AttrREP:
		return "REP"
	case AttrRTU:
		return "RTU"
	case AttrDREQ:
		return "DREQ"
	case AttrDREP:
		return "DREP"
	}
	return fmt.Sprintf("attribute %#02x", uint16(a))
}

// Header fields that all communication management messages have in common (IBTA 12.6).
const (
	madBaseVersion  = 1
	madClassCM      = 0x07
	madClassVersion = 2
	madMethodSend   = 0x03
)

// MADHeader is the part of the common header that differs between communication
// management messages.
type MADHeader struct {
	Status    uint16
	TID       uint64 // transaction ID: a reply has that of its request
	Attribute AttributeID
	Modifier  uint32
}

// ParseMAD interprets b, the payload of a packet to queue pair 1, as a communication management message. It returns
// BadMAD for any other length, base version, class, class version or method. The caller has to check the attribute.
func ParseMAD(b []byte) (*MAD, MADHeader, Fault) {
	if len(b) != MADSize || b[0] != madBaseVersion || b[1] != madClassCM || b[2] != madClassVersion || b[3] != madMethodSend {
		return nil, MADHeader{}, BadMAD
	}
	m := (*MAD)(b)
	return m, MADHeader{
		Status:    binary.BigEndian.Uint16(m[4:]),
		TID:       binary.BigEndian.Uint64(m[8:]),
		Attribute: AttributeID(binary.BigEndian.Uint16(m[16:])),
		Modifier:  binary.BigEndian.Uint32(m[20:]),
	}, OK
}

// PutHeader writes the common header.
func (m *MAD) PutHeader(h MADHeader) {
	*(*[8]byte)(m[:]) = [8]byte{madBaseVersion, madClassCM, madClassVersion, madMethodSend}
	binary.BigEndian.PutUint16(m[4:], h.Status)
	binary.BigEndian.PutUint64(m[8:], h.TID)
	binary.BigEndian.PutUint16(m[16:], uint16(h.Attribute))
	binary.BigEndian.PutUint16(m[18:], 0)
	binary.BigEndian.PutUint32(m[20:], h.Modifier)
}

// data returns the message after the header.
func (m *MAD) data() *[MADSize - MADHeaderSize]byte {
	return (*[MADSize - MADHeaderSize]byte)(m[MADHeaderSize:])
}

// begin writes the header of a new message and returns its zeroed data.
func (m *MAD) begin(attribute AttributeID, tid uint64) *[MADSize - MADHeaderSize]byte {
	*m = MAD{}
	m.PutHeader(MADHeader{TID: tid, Attribute: attribute})
	return m.data()
}

// CommID is a communication ID: each side identifies a connection by an ID of its own.
type CommID uint32

// GUID is an EUI-64 that identifies a channel adapter.
type GUID uint64

// ServiceID identifies the service of a node to which a REQ is addressed.
type ServiceID uint64

// tcpServices is the RDMA CM's TCP port space, with the port in the low 16 bits
// (IBTA A11.2.2).
const tcpServices ServiceID = 0x0106 << 16

// TCPService returns the service ID of a port of the RDMA CM's TCP port space.
func TCPService(port uint16) ServiceID { return tcpServices | ServiceID(port) }

// Port returns the port of a service ID, and false if it is not in the TCP port space.
func (s ServiceID) Port() (port uint16, ok bool) {
	return uint16(s), s&^0xffff == tcpServices
}

// MTU is the code of a path MTU (IBTA table 151): 1 to 5.
type MTU uint8

// Bytes returns the maximum payload of a packet, or 0 for a reserved code.
func (m MTU) Bytes() int {
	if m < 1 || m > 5 {
		return 0
	}
	return 128 << m
}

// MTUFor returns the code of the largest path MTU that is at most n bytes, or 0 if n is less than 256.
func MTUFor(n int) MTU {
	m := MTU(0)
	for m < 5 && n >= 128<<(m+1) {
		m++
	}
	return m
}

func putUint24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }
