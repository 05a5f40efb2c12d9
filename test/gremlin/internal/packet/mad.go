package packet

import (
	"encoding/binary"
	"net/netip"
)

// Destination of the connection manager's datagrams.
const (
	CMQPN  uint32 = 1
	CMQKey uint32 = 0x80010000
)

// An Attribute is the attribute ID of a MAD, which says what message it is (IBTA 12.6).
type Attribute uint16

const (
	REQ  Attribute = 0x10
	MRA  Attribute = 0x11
	REJ  Attribute = 0x12
	REP  Attribute = 0x13
	RTU  Attribute = 0x14
	DREQ Attribute = 0x15
	DREP Attribute = 0x16
	SIDR Attribute = 0x17 // service ID resolution, of datagrams
	LAP  Attribute = 0x19 // load alternate path
)

// A MAD is a management datagram.
type MAD [256]byte

// A Field is a bit field of a MAD. Bit 0 is the most significant bit of its byte.
type Field struct {
	Name string
	Byte int // from the start of the message, which is behind the header of 24 bytes
	Bit  int
	Bits int // at most 64
}

// Fields of the common header. Their offsets are negative, because they count from the end of the header.
var (
	BaseVersion  = Field{"base version", -24, 0, 8}
	Class        = Field{"class", -23, 0, 8}
	ClassVersion = Field{"class version", -22, 0, 8}
	Method       = Field{"method", -21, 0, 8}
	Status       = Field{"status", -20, 0, 16}
	Transaction  = Field{"transaction", -16, 0, 64}
	AttributeID  = Field{"attribute", -8, 0, 16}
	Modifier     = Field{"modifier", -4, 0, 32}
)

// Header lists the fields of the common header.
var Header = []Field{BaseVersion, Class, ClassVersion, Method, Status, Transaction, AttributeID, Modifier}

// Fields that several messages share.
var (
	LocalID  = Field{"local communication ID", 0, 0, 32}
	RemoteID = Field{"remote communication ID", 4, 0, 32}
)

// Fields of a REQ (IBTA 12.6.5).
var (
	ReqService            = Field{"service ID", 8, 0, 64}
	ReqGUID               = Field{"local CA GUID", 16, 0, 64}
	ReqQKey               = Field{"local Q_Key", 28, 0, 32}
	ReqQPN                = Field{"local QPN", 32, 0, 24}
	ReqResponderResources = Field{"responder resources", 35, 0, 8}
	ReqLocalEEC           = Field{"local EECN", 36, 0, 24}
	ReqInitiatorDepth     = Field{"initiator depth", 39, 0, 8}
	ReqRemoteEEC          = Field{"remote EECN", 40, 0, 24}
	ReqRemoteTimeout      = Field{"remote CM response timeout", 43, 0, 5}
	ReqTransport          = Field{"transport service type", 43, 5, 2}
	ReqFlowControl        = Field{"end-to-end flow control", 43, 7, 1}
	ReqPSN                = Field{"starting PSN", 44, 0, 24}
	ReqLocalTimeout       = Field{"local CM response timeout", 47, 0, 5}
	ReqRetryCount         = Field{"retry count", 47, 5, 3}
	ReqPKey               = Field{"partition key", 48, 0, 16}
	ReqMTU                = Field{"path MTU", 50, 0, 4}
	ReqRDC                = Field{"RDC exists", 50, 4, 1}
	ReqRNRRetryCount      = Field{"RNR retry count", 50, 5, 3}
	ReqMaxRetries         = Field{"max CM retries", 51, 0, 4}
	ReqSRQ                = Field{"SRQ", 51, 4, 1}
	ReqExtendedTransport  = Field{"extended transport type", 51, 5, 3}
	ReqLocalLID           = Field{"primary local LID", 52, 0, 16}
	ReqRemoteLID          = Field{"primary remote LID", 54, 0, 16}
	ReqLocalGIDHigh       = Field{"primary local GID, first half", 56, 0, 64}
	ReqLocalGIDLow        = Field{"primary local GID, second half", 64, 0, 64}
	ReqRemoteGIDHigh      = Field{"primary remote GID, first half", 72, 0, 64}
	ReqRemoteGIDLow       = Field{"primary remote GID, second half", 80, 0, 64}
	ReqFlowLabel          = Field{"primary flow label", 88, 0, 20}
	ReqRate               = Field{"primary packet rate", 91, 2, 6}
	ReqTrafficClass       = Field{"primary traffic class", 92, 0, 8}
	ReqHopLimit           = Field{"primary hop limit", 93, 0, 8}
	ReqServiceLevel       = Field{"primary SL", 94, 0, 4}
	ReqSubnetLocal        = Field{"primary subnet local", 94, 4, 1}
	ReqAckTimeout         = Field{"primary local ACK timeout", 95, 0, 5}
)

// Request lists the fields of a REQ up to its alternate path.
var Request = []Field{
	LocalID, ReqService, ReqGUID, ReqQKey, ReqQPN, ReqResponderResources, ReqLocalEEC, ReqInitiatorDepth, ReqRemoteEEC,
	ReqRemoteTimeout, ReqTransport, ReqFlowControl, ReqPSN, ReqLocalTimeout, ReqRetryCount, ReqPKey, ReqMTU, ReqRDC,
	ReqRNRRetryCount, ReqMaxRetries, ReqSRQ, ReqExtendedTransport, ReqLocalLID, ReqRemoteLID, ReqLocalGIDHigh, ReqLocalGIDLow,
	ReqRemoteGIDHigh, ReqRemoteGIDLow, ReqFlowLabel, ReqRate, ReqTrafficClass, ReqHopLimit, ReqServiceLevel,
	ReqSubnetLocal, ReqAckTimeout,
}

// Fields of a REP (IBTA 12.6.8).
var (
	RepQKey               = Field{"local Q_Key", 8, 0, 32}
	RepQPN                = Field{"local QPN", 12, 0, 24}
	RepPSN                = Field{"starting PSN", 20, 0, 24}
	RepResponderResources = Field{"responder resources", 24, 0, 8}
	RepInitiatorDepth     = Field{"initiator depth", 25, 0, 8}
	RepAckDelay           = Field{"target ACK delay", 26, 0, 5}
	RepFailover           = Field{"failover accepted", 26, 5, 2}
	RepFlowControl        = Field{"end-to-end flow control", 26, 7, 1}
	RepRNRRetryCount      = Field{"RNR retry count", 27, 0, 3}
	RepSRQ                = Field{"SRQ", 27, 3, 1}
	RepGUID               = Field{"local CA GUID", 28, 0, 64}
)

// Reply lists the fields of a REP.
var Reply = []Field{
	LocalID, RemoteID, RepQKey, RepQPN, RepPSN, RepResponderResources, RepInitiatorDepth, RepAckDelay, RepFailover,
	RepFlowControl, RepRNRRetryCount, RepSRQ, RepGUID,
}

// Fields of a REJ (IBTA 12.6.7), an MRA (12.6.6) and a DREQ (12.6.10).
var (
	RejMessage    = Field{"message rejected", 8, 0, 2}
	RejInfoLength = Field{"reject info length", 9, 0, 7}
	RejReason     = Field{"reason", 10, 0, 16}
	MraMessage    = Field{"message MRAed", 8, 0, 2}
	MraTimeout    = Field{"service timeout", 9, 0, 5}
	DreqQPN       = Field{"remote QPN", 8, 0, 24}
)

// private holds the offset of the private data in each message.
var private = map[Attribute]int{REQ: 140, MRA: 10, REJ: 84, REP: 36, RTU: 8, DREQ: 12, DREP: 8}

// NewMAD returns a message in which only the header is set.
func NewMAD(a Attribute) (m MAD) {
	m.Set(BaseVersion, 1)
	m.Set(Class, 7) // communication management
	m.Set(ClassVersion, 2)
	m.Set(Method, 3) // Send
	m.Set(AttributeID, uint64(a))
	return m
}

// Attribute returns the attribute ID of the message.
func (m *MAD) Attribute() Attribute { return Attribute(m.Get(AttributeID)) }

// Set sets a field to the low bits of v.
func (m *MAD) Set(f Field, v uint64) {
	for i := range f.Bits {
		at := (24+f.Byte)*8 + f.Bit + i
		mask := byte(0x80) >> (at % 8)
		m[at/8] &^= mask
		if v>>(f.Bits-1-i)&1 != 0 {
			m[at/8] |= mask
		}
	}
}

// Get returns the value of a field.
func (m *MAD) Get(f Field) (v uint64) {
	for i := range f.Bits {
		at := (24+f.Byte)*8 + f.Bit + i
		v = v<<1 | uint64(m[at/8]>>(7-at%8)&1)
	}
	return v
}

// Private returns the private data, which is part of m.
func (m *MAD) Private() []byte {
	at, ok := private[m.Attribute()]
	if !ok {
		return nil
	}
	return m[24+at:]
}

// ServiceID returns the service ID of a TCP port in the RDMA CM's port space (IBTA A11.2.2).
func ServiceID(port uint16) uint64 { return 0x01060000 | uint64(port) }

// IPHeaderSize is the number of bytes that the RDMA CM uses of a REQ's private data (IBTA A11.4).
const IPHeaderSize = 36

// SetAddresses sets the addresses of a REQ: the GIDs of its path and the RDMA CM's header.
func (m *MAD) SetAddresses(src netip.AddrPort, dst netip.Addr) {
	p := m.Private()
	version := byte(6)
	if src.Addr().Unmap().Is4() {
		version = 4
	}
	p[0], p[1] = 0, version<<4
	binary.BigEndian.PutUint16(p[2:], src.Port())
	clear(p[4:IPHeaderSize])
	for i, a := range []netip.Addr{src.Addr().Unmap(), dst.Unmap()} {
		gid := a.As16() // an IPv4 address is mapped to IPv6
		copy(m[24+56+16*i:], gid[:])
		copy(p[4+16*i+16-a.BitLen()/8:], a.AsSlice())
	}
}

// Datagram returns the packet that carries the message.
func (m *MAD) Datagram() Packet {
	return Packet{Opcode: DatagramSend, PKey: DefaultPKey, QPN: CMQPN, QKey: CMQKey, SrcQPN: CMQPN, Payload: m[:]}
}
