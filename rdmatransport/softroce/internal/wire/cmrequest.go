package wire

import (
	"encoding/binary"
	"net/netip"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// TransportType is the transport service that a REQ asks for: 2 bits.
type TransportType uint8

const (
	TransportRC TransportType = 0
	TransportUC TransportType = 1
	TransportRD TransportType = 2
)

// REQ asks for a connection (IBTA 12.6.5). Its alternate path is kept as bytes.
type REQ struct {
	LocalID            CommID
	Service            ServiceID
	GUID               GUID // of the sender's channel adapter
	QKey               uint32
	QPN                rdmatransport.QPN
	ResponderResources uint8   // READs and atomics the sender serves at a time
	InitiatorDepth     uint8   // READs and atomics the sender wants to have in flight
	RemoteTimeout      Timeout // within which the receiver must answer
	Transport          TransportType
	FlowControl        bool    // end to end
	StartingPSN        PSN     // at which the receiver of the message must start sending
	LocalTimeout       Timeout // within which the sender will answer
	RetryCount         uint8   // 3 bits
	PKey               uint16
	PathMTU            MTU
	RDCExists          bool
	RNRRetryCount      uint8 // 3 bits
	MaxRetries         uint8 // of CM messages; 4 bits
	SRQ                bool
	ExtendedTransport  uint8 // 3 bits

	LocalLID, RemoteLID uint16
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // 20 bits
	Rate                uint8  // 6 bits
	TrafficClass        uint8
	HopLimit            uint8
	ServiceLevel        uint8 // 4 bits
	SubnetLocal         bool
	AckTimeout          Timeout
	AlternatePath       [44]byte

	PrivateData [92]byte
}

// Parse decodes the message in a MAD with attribute AttrREQ.
func (r *REQ) Parse(m *MAD) {
	d, be := m.data(), binary.BigEndian
	r.LocalID = CommID(be.Uint32(d[0:]))
	r.Service = ServiceID(be.Uint64(d[8:]))
	r.GUID = GUID(be.Uint64(d[16:]))
	r.QKey = be.Uint32(d[28:])
	r.QPN = rdmatransport.QPN(uint24(d[32:]))
	r.ResponderResources = d[35]
	r.InitiatorDepth = d[39]
	r.RemoteTimeout = Timeout(d[43] >> 3)
	r.Transport = TransportType(d[43] >> 1 & 3)
	r.FlowControl = d[43]&1 != 0
	r.StartingPSN = PSN(uint24(d[44:]))
	r.LocalTimeout, r.RetryCount = Timeout(d[47]>>3), d[47]&7
	r.PKey = be.Uint16(d[48:])
	r.PathMTU = MTU(d[50] >> 4)
	r.RDCExists, r.RNRRetryCount = d[50]&8 != 0, d[50]&7
	r.MaxRetries, r.SRQ, r.ExtendedTransport = d[51]>>4, d[51]&8 != 0, d[51]&7
	r.parsePath(d[52:96])
	r.AlternatePath = [44]byte(d[96:140])
	r.PrivateData = [92]byte(d[140:])
}

// parsePath decodes the primary path, the message's bytes 52 to 95.
func (r *REQ) parsePath(d []byte) {
	be := binary.BigEndian
	r.LocalLID, r.RemoteLID = be.Uint16(d[0:]), be.Uint16(d[2:])
	r.LocalGID, r.RemoteGID = GID(d[4:20]), GID(d[20:36])
	r.FlowLabel = be.Uint32(d[36:]) >> 12
	r.Rate = d[39] & 0x3f
	r.TrafficClass, r.HopLimit = d[40], d[41]
	r.ServiceLevel, r.SubnetLocal = d[42]>>4, d[42]&8 != 0
	r.AckTimeout = Timeout(d[43] >> 3)
}

// Put encodes the message into m.
func (r *REQ) Put(m *MAD, tid uint64) {
	d, be := m.begin(AttrREQ, tid), binary.BigEndian
	be.PutUint32(d[0:], uint32(r.LocalID))
	be.PutUint64(d[8:], uint64(r.Service))
	be.PutUint64(d[16:], uint64(r.GUID))
	be.PutUint32(d[28:], r.QKey)
	putUint24(d[32:], uint32(r.QPN))
	d[35] = r.ResponderResources
	d[39] = r.InitiatorDepth
	d[43] = byte(r.RemoteTimeout)<<3 | byte(r.Transport&3)<<1 | bit(r.FlowControl, 1)
	putUint24(d[44:], uint32(r.StartingPSN))
	d[47] = byte(r.LocalTimeout)<<3 | r.RetryCount&7
	be.PutUint16(d[48:], r.PKey)
	d[50] = byte(r.PathMTU)<<4 | bit(r.RDCExists, 8) | r.RNRRetryCount&7
	d[51] = r.MaxRetries<<4 | bit(r.SRQ, 8) | r.ExtendedTransport&7
	r.putPath(d[52:96])
	copy(d[96:140], r.AlternatePath[:])
	copy(d[140:], r.PrivateData[:])
}

func (r *REQ) putPath(d []byte) {
	be := binary.BigEndian
	be.PutUint16(d[0:], r.LocalLID)
	be.PutUint16(d[2:], r.RemoteLID)
	copy(d[4:20], r.LocalGID[:])
	copy(d[20:36], r.RemoteGID[:])
	be.PutUint32(d[36:], r.FlowLabel<<12|uint32(r.Rate&0x3f))
	d[40], d[41] = r.TrafficClass, r.HopLimit
	d[42] = r.ServiceLevel<<4 | bit(r.SubnetLocal, 8)
	d[43] = byte(r.AckTimeout) << 3
}

// GID is a port's address. On RoCEv2 it is an IPv6 address, or an IPv4 address
// in its IPv4-mapped form (IBTA A17.4.2).
type GID [16]byte

// GIDFor returns the GID of an address.
func GIDFor(a netip.Addr) GID { return a.As16() }

// Addr returns the IP address of the GID.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// IPHeaderSize is the size of an IPHeader at the start of a REQ's private data.
const IPHeaderSize = 36

// An IPHeader is the header that the RDMA CM puts before the consumer's private data in a REQ (IBTA A11.3.2).
type IPHeader struct {
	Version    uint8 // 0: major 0, minor 0
	IPVersion  uint8 // 4 or 6, 4 bits
	SourcePort uint16
	// An IPv4 address occupies the last four of its 16 bytes.
	Source, Destination [16]byte
}

// NewIPHeader returns the header for a connection from src to the address dst, both of one family.
func NewIPHeader(src netip.AddrPort, dst netip.Addr) IPHeader {
	h := IPHeader{IPVersion: 6, SourcePort: src.Port()}
	from, to := src.Addr().Unmap(), dst.Unmap()
	if from.Is4() {
		h.IPVersion = 4
	}
	copy(h.Source[16-from.BitLen()/8:], from.AsSlice())
	copy(h.Destination[16-to.BitLen()/8:], to.AsSlice())
	return h
}

// Addrs returns the addresses in the header. It returns false if the version is not 0 or the IP version is not 4 or
// 6.
func (h *IPHeader) Addrs() (src, dst netip.Addr, ok bool) {
	switch {
	case h.Version != 0:
		return src, dst, false
	case h.IPVersion == 4:
		return netip.AddrFrom4([4]byte(h.Source[12:])), netip.AddrFrom4([4]byte(h.Destination[12:])), true
	case h.IPVersion == 6:
		return netip.AddrFrom16(h.Source), netip.AddrFrom16(h.Destination), true
	}
	return src, dst, false
}

// Parse decodes the header at the start of a REQ's private data.
func (h *IPHeader) Parse(b *[92]byte) {
	h.Version, h.IPVersion = b[0], b[1]>>4
	h.SourcePort = binary.BigEndian.Uint16(b[2:])
	h.Source, h.Destination = [16]byte(b[4:20]), [16]byte(b[20:36])
}

// Put encodes the header at the start of a REQ's private data.
func (h *IPHeader) Put(b *[92]byte) {
	b[0], b[1] = h.Version, h.IPVersion<<4
	binary.BigEndian.PutUint16(b[2:], h.SourcePort)
	copy(b[4:20], h.Source[:])
	copy(b[20:36], h.Destination[:])
}
