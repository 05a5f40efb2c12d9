package wire

import (
	"encoding/binary"

	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// CMMessage identifies the message that a REJ or an MRA answers.
type CMMessage uint8

const (
	MessageREQ   CMMessage = 0
	MessageREP   CMMessage = 1
	MessageOther CMMessage = 2 // in a REJ: no message; in an MRA: LAP
)

// REP accepts a REQ (IBTA 12.6.8).
type REP struct {
	LocalID, RemoteID  CommID
	QKey               uint32
	QPN                rdmatransport.QPN
	StartingPSN        PSN // at which the receiver of the message must start sending
	ResponderResources uint8
	InitiatorDepth     uint8
	AckDelay           Timeout
	Failover           uint8 // 2 bits
	FlowControl        bool
	RNRRetryCount      uint8 // 3 bits
	SRQ                bool
	GUID               GUID
	PrivateData        [196]byte
}

// Parse decodes the message in a MAD with attribute AttrREP.
func (r *REP) Parse(m *MAD) {
	d, be := m.data(), binary.BigEndian
	r.LocalID, r.RemoteID = commIDs(d)
	r.QKey = be.Uint32(d[8:])
	r.QPN = rdmatransport.QPN(uint24(d[12:]))
	r.StartingPSN = PSN(uint24(d[20:]))
	r.ResponderResources, r.InitiatorDepth = d[24], d[25]
	r.AckDelay, r.Failover, r.FlowControl = Timeout(d[26]>>3), d[26]>>1&3, d[26]&1 != 0
	r.RNRRetryCount, r.SRQ = d[27]>>5, d[27]&16 != 0
	r.GUID = GUID(be.Uint64(d[28:]))
	r.PrivateData = [196]byte(d[36:])
}

// Put encodes the message into m.
func (r *REP) Put(m *MAD, tid uint64) {
	d, be := m.begin(AttrREP, tid), binary.BigEndian
	putCommIDs(d, r.LocalID, r.RemoteID)
	be.PutUint32(d[8:], r.QKey)
	putUint24(d[12:], uint32(r.QPN))
	putUint24(d[20:], uint32(r.StartingPSN))
	d[24], d[25] = r.ResponderResources, r.InitiatorDepth
	d[26] = byte(r.AckDelay)<<3 | r.Failover&3<<1 | bit(r.FlowControl, 1)
	d[27] = r.RNRRetryCount<<5 | bit(r.SRQ, 16)
	be.PutUint64(d[28:], uint64(r.GUID))
	copy(d[36:], r.PrivateData[:])
}

// RTU confirms a REP (IBTA 12.6.9).
type RTU struct {
	LocalID, RemoteID CommID
	PrivateData       [224]byte
}

// Parse decodes the message in a MAD with attribute AttrRTU.
func (r *RTU) Parse(m *MAD) {
	d := m.data()
	r.LocalID, r.RemoteID = commIDs(d)
	r.PrivateData = [224]byte(d[8:])
}

// Put encodes the message into m.
func (r *RTU) Put(m *MAD, tid uint64) {
	d := m.begin(AttrRTU, tid)
	putCommIDs(d, r.LocalID, r.RemoteID)
	copy(d[8:], r.PrivateData[:])
}

// REJ rejects a REQ or a REP, or ends an exchange (IBTA 12.6.7).
type REJ struct {
	LocalID, RemoteID CommID // LocalID is 0 if the sender has no connection
	Message           CMMessage
	InfoLength        uint8 // 7 bits: number of bytes used in Info
	Reason            rdmatransport.RejectReason
	Info              [72]byte // additional reject information, depending on the reason
	PrivateData       [148]byte
}

// Parse decodes the message in a MAD with attribute AttrREJ.
func (r *REJ) Parse(m *MAD) {
	d := m.data()
	r.LocalID, r.RemoteID = commIDs(d)
	r.Message, r.InfoLength = CMMessage(d[8]>>6), d[9]>>1
	r.Reason = rdmatransport.RejectReason(binary.BigEndian.Uint16(d[10:]))
	r.Info = [72]byte(d[12:84])
	r.PrivateData = [148]byte(d[84:])
}

// Put encodes the message into m.
func (r *REJ) Put(m *MAD, tid uint64) {
	d := m.begin(AttrREJ, tid)
	putCommIDs(d, r.LocalID, r.RemoteID)
	d[8], d[9] = byte(r.Message)<<6, r.InfoLength<<1
	binary.BigEndian.PutUint16(d[10:], uint16(r.Reason))
	copy(d[12:84], r.Info[:])
	copy(d[84:], r.PrivateData[:])
}

// MRA reports that a message arrived and that the answer takes longer (IBTA 12.6.6).
type MRA struct {
	LocalID, RemoteID CommID
	Message           CMMessage
	ServiceTimeout    Timeout // within which the answer will be sent
	PrivateData       [222]byte
}

// Parse decodes the message in a MAD with attribute AttrMRA.
func (r *MRA) Parse(m *MAD) {
	d := m.data()
	r.LocalID, r.RemoteID = commIDs(d)
	r.Message, r.ServiceTimeout = CMMessage(d[8]>>6), Timeout(d[9]>>3)
	r.PrivateData = [222]byte(d[10:])
}

// Put encodes the message into m.
func (r *MRA) Put(m *MAD, tid uint64) {
	d := m.begin(AttrMRA, tid)
	putCommIDs(d, r.LocalID, r.RemoteID)
	d[8], d[9] = byte(r.Message)<<6, byte(r.ServiceTimeout)<<3
	copy(d[10:], r.PrivateData[:])
}

// DREQ asks for the end of a connection (IBTA 12.6.10).
type DREQ struct {
	LocalID, RemoteID CommID
	RemoteQPN         rdmatransport.QPN // the receiver's queue pair
	PrivateData       [220]byte
}

// Parse decodes the message in a MAD with attribute AttrDREQ.
func (r *DREQ) Parse(m *MAD) {
	d := m.data()
	r.LocalID, r.RemoteID = commIDs(d)
	r.RemoteQPN = rdmatransport.QPN(uint24(d[8:]))
	r.PrivateData = [220]byte(d[12:])
}

// Put encodes the message into m.
func (r *DREQ) Put(m *MAD, tid uint64) {
	d := m.begin(AttrDREQ, tid)
	putCommIDs(d, r.LocalID, r.RemoteID)
	putUint24(d[8:], uint32(r.RemoteQPN))
	copy(d[12:], r.PrivateData[:])
}

// DREP answers a DREQ (IBTA 12.6.11).
type DREP struct {
	LocalID, RemoteID CommID
	PrivateData       [224]byte
}

// Parse decodes the message in a MAD with attribute AttrDREP.
func (r *DREP) Parse(m *MAD) {
	d := m.data()
	r.LocalID, r.RemoteID = commIDs(d)
	r.PrivateData = [224]byte(d[8:])
}

// Put encodes the message into m.
func (r *DREP) Put(m *MAD, tid uint64) {
	d := m.begin(AttrDREP, tid)
	putCommIDs(d, r.LocalID, r.RemoteID)
	copy(d[8:], r.PrivateData[:])
}

// Every message but the REQ starts with the sender's communication ID and the
// receiver's.

func commIDs(d *[MADSize - MADHeaderSize]byte) (local, remote CommID) {
	return CommID(binary.BigEndian.Uint32(d[0:])), CommID(binary.BigEndian.Uint32(d[4:]))
}

func putCommIDs(d *[MADSize - MADHeaderSize]byte, local, remote CommID) {
	binary.BigEndian.PutUint32(d[0:], uint32(local))
	binary.BigEndian.PutUint32(d[4:], uint32(remote))
}
