package fabric

import (
	"github.com/nvmeof-go/nvmeof/capsule"
	"github.com/nvmeof-go/nvmeof/rdmatransport"
)

// Limits are what a target grants to a connection request. A zero field selects the default.
type Limits struct {
	IOQueues   int // queue identifiers 1 to IOQueues; default 128, negative for none
	AdminDepth int // entries of the admin queue; default 32
	IODepth    int // entries of an I/O queue; default 128
}

func (l Limits) queues() int {
	switch {
	case l.IOQueues < 0:
		return 0
	case l.IOQueues == 0:
		return 128
	}
	return l.IOQueues
}

// Depth returns the maximum number of entries of the queue with that identifier.
func (l Limits) Depth(q capsule.QID) int {
	depth, fallback := l.IODepth, 128
	if q == 0 {
		depth, fallback = l.AdminDepth, 32
	}
	if depth <= 0 {
		return fallback
	}
	return depth
}

// CheckRequest decodes the private data of a connection request. It returns the status with which the request must be
// rejected, or 0 (NVMe RDMA transport 1.0, 3.3). A host cannot be given a smaller queue than it asks for, since no host
// reads CRQSIZE. HRQSIZE needs no upper bound, since the target never owes more responses than commands.
func CheckRequest(req rdmatransport.ConnRequest, l Limits) (capsule.RequestData, capsule.RejectStatus) {
	d, err := capsule.DecodeRequestData(req.PrivateData())
	switch {
	case err != nil:
		return d, capsule.RejectInvalidLength
	case d.RECFMT != 0:
		return d, capsule.RejectInvalidRECFMT
	case int(d.QID) > l.queues():
		return d, capsule.RejectInvalidQID
	case d.HSQSIZE == 0 || int(d.HSQSIZE)+1 > l.Depth(d.QID):
		return d, capsule.RejectInvalidHSQSIZE
	case d.HRQSIZE == 0:
		return d, capsule.RejectInvalidHRQSIZE
	case req.InitiatorDepth() == 0: // the RDMA READs that the host serves: none would be possible
		return d, capsule.RejectInvalidIRD
	}
	return d, 0
}

// Reject rejects a connection request with an NVMe status.
func Reject(req rdmatransport.ConnRequest, s capsule.RejectStatus) error {
	var b [capsule.RejectDataSize]byte
	capsule.RejectData{STS: s}.Encode(b[:])
	return req.Reject(b[:])
}
