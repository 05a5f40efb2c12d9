package capsule

import "fmt"

// Lengths of the Discovery log's header and of each entry in bytes.
const (
	DiscoveryHeaderSize = 1024
	DiscoveryEntrySize  = 1024

	discoveryHeaderUsed = 18
)

// DiscoveryHeader is the header of the Discovery log (NVMe base 2.0, 5.16.1.23).
type DiscoveryHeader struct {
	GENCTR uint64 // changes when the log changes
	NUMREC uint64
	RECFMT uint16 // 0
}

func (h *DiscoveryHeader) fields(l layout) {
	u64(l, 0, &h.GENCTR)
	u64(l, 8, &h.NUMREC)
	u16(l, 16, &h.RECFMT)
}

// DecodeDiscoveryHeader decodes the start of b. 18 of its 1024 bytes are enough, since hosts often fetch little more to
// learn the length of the log.
func DecodeDiscoveryHeader(b []byte) (h DiscoveryHeader, err error) {
	l, err := decoder(b, discoveryHeaderUsed)
	if err == nil {
		h.fields(l)
	}
	return h, err
}

// Encode fills the first 1024 bytes of b.
func (h DiscoveryHeader) Encode(b []byte) { h.fields(encoder(b, DiscoveryHeaderSize)) }

// TransportType is a TRTYPE.
type TransportType uint8

const (
	TransportRDMA TransportType = 1
	TransportFC   TransportType = 2
	TransportTCP  TransportType = 3
	TransportLoop TransportType = 254
)

func (t TransportType) String() string {
	switch t {
	case TransportRDMA:
		return "rdma"
	case TransportFC:
		return "fc"
	case TransportTCP:
		return "tcp"
	case TransportLoop:
		return "loop"
	}
	return fmt.Sprintf("transport %d", uint8(t))
}

// AddressFamily is an ADRFAM.
type AddressFamily uint8

const (
	FamilyIPv4 AddressFamily = 1
	FamilyIPv6 AddressFamily = 2
	FamilyIB   AddressFamily = 3
	FamilyFC   AddressFamily = 4
)

func (f AddressFamily) String() string {
	switch f {
	case FamilyIPv4:
		return "ipv4"
	case FamilyIPv6:
		return "ipv6"
	case FamilyIB:
		return "infiniband"
	case FamilyFC:
		return "fibre-channel"
	}
	return fmt.Sprintf("address family %d", uint8(f))
}

// SubsystemType is a SUBTYPE.
type SubsystemType uint8

const (
	SubsystemReferral         SubsystemType = 1
	SubsystemNVM              SubsystemType = 2
	SubsystemCurrentDiscovery SubsystemType = 3
)

// Bits of TREQ, the transport requirements.
const (
	TREQSecureRequired    uint8 = 1
	TREQSecureNotRequired uint8 = 2
	TREQNoFlowControl     uint8 = 1 << 2 // disabling SQ flow control is supported
)

// Bits of EFLAGS.
const (
	DiscoveryDuplicate  uint16 = 1 << 0 // another port returns the same information
	DiscoveryPersistent uint16 = 1 << 1 // explicit persistent connections are supported
)

// RDMA values of the transport specific address.
const (
	RDMAQPConnected    uint8 = 1
	RDMAProviderNone   uint8 = 1
	RDMAProviderIB     uint8 = 2
	RDMAProviderRoCE   uint8 = 3
	RDMAProviderRoCEv2 uint8 = 4
	RDMAProviderIWARP  uint8 = 5
	RDMAConnectionCM   uint8 = 1
)

// DiscoveryEntry is one entry of the Discovery log. The text fields are ASCII; decode them with [Text].
type DiscoveryEntry struct {
	TRTYPE     TransportType
	ADRFAM     AddressFamily
	SUBTYPE    SubsystemType
	TREQ       uint8
	PORTID     uint16
	CNTLID     ControllerID
	ASQSZ      uint16
	EFLAGS     uint16
	TRSVCID    [32]byte
	SubNQN     NQNField
	TRADDR     [256]byte
	RDMAQPType uint8
	RDMAPRType uint8
	RDMACMS    uint8
	RDMAPKey   uint16
}

func (e *DiscoveryEntry) fields(l layout) {
	u8(l, 0, &e.TRTYPE)
	u8(l, 1, &e.ADRFAM)
	u8(l, 2, &e.SUBTYPE)
	u8(l, 3, &e.TREQ)
	u16(l, 4, &e.PORTID)
	u16(l, 6, &e.CNTLID)
	u16(l, 8, &e.ASQSZ)
	u16(l, 10, &e.EFLAGS)
	l.bytes(32, e.TRSVCID[:])
	l.bytes(256, e.SubNQN[:])
	l.bytes(512, e.TRADDR[:])
	u8(l, 768, &e.RDMAQPType)
	u8(l, 769, &e.RDMAPRType)
	u8(l, 770, &e.RDMACMS)
	u16(l, 776, &e.RDMAPKey)
}

// DecodeDiscoveryEntry decodes the 1024 bytes at the start of b.
func DecodeDiscoveryEntry(b []byte) (e DiscoveryEntry, err error) {
	l, err := decoder(b, DiscoveryEntrySize)
	if err == nil {
		e.fields(l)
	}
	return e, err
}

// Encode fills the first 1024 bytes of b.
func (e *DiscoveryEntry) Encode(b []byte) { e.fields(encoder(b, DiscoveryEntrySize)) }
