package capsule

import "fmt"

// Lengths of the NVMe private data in messages of the connection exchange.
const (
	RequestDataSize = 32
	AcceptDataSize  = 32
	RejectDataSize  = 4
)

// RequestData is the private data of a host's connection request (NVMe RDMA transport 1.0, 3.3).
type RequestData struct {
	RECFMT  uint16 // 0
	QID     QID
	HRQSIZE uint16       // the size of the host's receive queue: we must not send more responses than that
	HSQSIZE uint16       // the host's submission queue, 0's based
	CNTLID  ControllerID // of an I/O queue; 0 from hosts that do not set it
}

func (d *RequestData) fields(l layout) {
	u16(l, 0, &d.RECFMT)
	u16(l, 2, &d.QID)
	u16(l, 4, &d.HRQSIZE)
	u16(l, 6, &d.HSQSIZE)
	u16(l, 8, &d.CNTLID)
}

// DecodeRequestData decodes the 32 bytes at the start of b.
func DecodeRequestData(b []byte) (d RequestData, err error) {
	l, err := decoder(b, RequestDataSize)
	if err == nil {
		d.fields(l)
	}
	return d, err
}

// Encode fills the first 32 bytes of b.
func (d RequestData) Encode(b []byte) { d.fields(encoder(b, RequestDataSize)) }

// AcceptData is the private data with which a controller accepts a connection request.
type AcceptData struct {
	RECFMT  uint16 // 0
	CRQSIZE uint16 // the size of the controller's receive queue
}

func (d *AcceptData) fields(l layout) {
	u16(l, 0, &d.RECFMT)
	u16(l, 2, &d.CRQSIZE)
}

// DecodeAcceptData decodes the 32 bytes at the start of b.
func DecodeAcceptData(b []byte) (d AcceptData, err error) {
	l, err := decoder(b, AcceptDataSize)
	if err == nil {
		d.fields(l)
	}
	return d, err
}

// Encode fills the first 32 bytes of b.
func (d AcceptData) Encode(b []byte) { d.fields(encoder(b, AcceptDataSize)) }

// RejectData is the private data with which a controller rejects a connection request.
type RejectData struct {
	RECFMT uint16 // 0
	STS    RejectStatus
}

func (d *RejectData) fields(l layout) {
	u16(l, 0, &d.RECFMT)
	u16(l, 2, &d.STS)
}

// DecodeRejectData decodes the 4 bytes at the start of b.
func DecodeRejectData(b []byte) (d RejectData, err error) {
	l, err := decoder(b, RejectDataSize)
	if err == nil {
		d.fields(l)
	}
	return d, err
}

// Encode fills the first 4 bytes of b.
func (d RejectData) Encode(b []byte) { d.fields(encoder(b, RejectDataSize)) }

// RejectStatus is why a controller rejected a connection request.
type RejectStatus uint16

const (
	RejectInvalidLength  RejectStatus = 1
	RejectInvalidRECFMT  RejectStatus = 2
	RejectInvalidQID     RejectStatus = 3
	RejectInvalidHSQSIZE RejectStatus = 4
	RejectInvalidHRQSIZE RejectStatus = 5
	RejectNoResources    RejectStatus = 6
	RejectInvalidIRD     RejectStatus = 7
	RejectInvalidORD     RejectStatus = 8
	RejectInvalidCNTLID  RejectStatus = 9
)

var rejectNames = [...]string{
	RejectInvalidLength: "invalid private data length", RejectInvalidRECFMT: "invalid record format",
	RejectInvalidQID: "invalid queue identifier", RejectInvalidHSQSIZE: "invalid host send queue size",
	RejectInvalidHRQSIZE: "invalid host receive queue size", RejectNoResources: "no resources",
	RejectInvalidIRD: "invalid IRD", RejectInvalidORD: "invalid ORD",
	RejectInvalidCNTLID: "invalid controller identifier",
}

func (s RejectStatus) String() string {
	if s > 0 && int(s) < len(rejectNames) {
		return rejectNames[s]
	}
	return fmt.Sprintf("reject status %d", uint16(s))
}
